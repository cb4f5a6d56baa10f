"""The deletion of a crashed job whose transactions no broker ends, on the real cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusterjob.environment import ClusterEnvironment
from clusterjob.kafka.reading import read_committed
from clusterjob.kafka.transactions import open_transactions
from clusterjob.live_job import KIND
from sparkapp.model import names
from sparkapp.model.protocol import ProtocolStep
from tests.support.kubernetes.cluster_job import NAME, ClusterJob
from tests.support.kubernetes.other_broker import beside_another_broker
from tests.support.patience import until

RECORDS = 20_000
PER_CHECKPOINT = 2_000
CHECKPOINT_OF_THE_FAULT = 3
FINAL = {ProtocolStep.AFTER_FLUSH: CHECKPOINT_OF_THE_FAULT - 1, ProtocolStep.BETWEEN_COMMITS: CHECKPOINT_OF_THE_FAULT}
"""Points of a crash, and the last checkpoint whose document is written then."""
BACKOFF_SECONDS = 3600
"""No attempt of the job's own follows while the test looks."""


@pytest.fixture(scope="module")
def patient(operator: ClusterEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterEnvironment]:
    """The cluster beside a broker that takes any transaction time-out; the cluster's own broker limits it."""
    unlimited = {"transaction.max.timeout.ms": "2147483647"}
    with beside_another_broker(operator, tmp_path_factory.mktemp("patient"), overrides=unlimited) as found:
        yield found


@pytest.fixture(scope="module")
def crashed(patient: ClusterEnvironment) -> Iterator[dict[ProtocolStep, ClusterJob]]:
    """One job for each point, all started at once: most of a start is waiting."""
    sites = {}
    for step in FINAL:
        cluster_job = sites[step] = ClusterJob.make(patient, f"never-{step}")
        cluster_job.load(RECORDS)
        cluster_job.apply(
            source={"limits": {"maxOffsetsPerCheckpoint": PER_CHECKPOINT}},
            sink={"transactions": {"timeoutSeconds": 0}},
            **cluster_job.fault(f"{step}@attempt=1,checkpoint={CHECKPOINT_OF_THE_FAULT}"),
            restartPolicy={"backoff": {"initialSeconds": BACKOFF_SECONDS, "maxSeconds": BACKOFF_SECONDS}},
        )
    yield sites
    for cluster_job in sites.values():
        cluster_job.close()


def await_fault(cluster_job: ClusterJob, final: int) -> None:
    """Waits until the job is in backoff after its fault. An attempt that failed by itself is in backoff, too.

    :param final: the last checkpoint whose document is written then.
    """
    job = cluster_job.job
    status = job.wait("in backoff", lambda status: "nextRetryTime" in status.get("restarts", {}))
    assert status["lastFailure"]["reason"] == "DriverKilled", job.diagnosis()
    assert job.wait_checkpoint(final, attempt=1).checkpoint == final


@pytest.mark.parametrize("step", FINAL)
def test_a_job_that_is_deleted_in_backoff_leaves_nothing_open(
    step: ProtocolStep, crashed: dict[ProtocolStep, ClusterJob]
) -> None:
    cluster_job = crashed[step]
    await_fault(cluster_job, FINAL[step])
    assert open_transactions(cluster_job.environment.bootstrap, cluster_job.prefix) != []
    cluster_job.job.delete()
    cluster_job.assert_nothing_open()
    found = read_committed(cluster_job.environment.bootstrap, cluster_job.sink)
    assert len(found) == FINAL[step] * PER_CHECKPOINT
    verdict = cluster_job.judge()
    assert (verdict.duplicates, verdict.wrong) == (0, 0), verdict.explain()
    reasons = [each["reason"] for each in cluster_job.kubectl.list("events")]
    assert "TransactionsSettled" in reasons
    assert "TransactionsLeftOpen" not in reasons


def test_a_cancelled_job_leaves_no_transaction_open(operator: ClusterEnvironment) -> None:
    """With a finite time-out of the transactions: the resource waits for them all the same."""
    cluster_job = ClusterJob.make(operator, "cancelled")
    try:
        cluster_job.load(RECORDS)
        cluster_job.apply(
            source={"limits": {"maxOffsetsPerCheckpoint": PER_CHECKPOINT}},
            deletion={"policy": "Cancel", "deadlineSeconds": 120},
        )
        cluster_job.job.wait_ready()
        cluster_job.kubectl.delete(KIND, NAME)
        assert open_transactions(operator.bootstrap, cluster_job.prefix) == []
        assert cluster_job.topics.held_back(cluster_job.sink) == 0
        # Kubernetes collects what the resource owned.
        until(lambda: cluster_job.kubectl.list("pods", f"{names.LABEL_JOB}={NAME}") == [])
    finally:
        cluster_job.close()
