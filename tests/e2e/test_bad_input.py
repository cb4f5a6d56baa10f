"""The first attempt of a job that cannot work reports reason and remedy. Restarts have pauses, Kafka is unchanged.

``test_no_leak.py`` has refused credentials.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from clusterjob.live_job import condition_of
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import ClusterJob

SIDE_BY_SIDE = 3
PAUSE_SECONDS = 10
"""Of the first restart; each further pause is twice as long."""
RECORDS = 100
UNREACHABLE = "UNREACHABLE"


@dataclass(frozen=True)
class Bad:
    """A job that cannot work.

    :param reason: of the failure, the condition and the event.
    :param mentions: parts of the message and remedy.
    :param condition: the condition that is False, together with Ready.
    :param spec: changes to a job that would work.
    :param code: content of the module ``enrich`` in the job's ConfigMap.
    :param fatal: whether a restart cannot help.
    """

    reason: str
    mentions: tuple[str, ...]
    condition: str = "Ready"
    spec: dict[str, Any] = field(default_factory=dict)
    code: str = ""
    fatal: bool = False


def python(function: str) -> dict[str, Any]:
    return {"transform": {"python": {"function": function, "configMapRef": {"name": "code"}}}}


CASES = {
    "unreachable-broker": Bad(
        reason="KafkaUnreachable", mentions=("spec.kafka.bootstrapServers",), condition="KafkaReachable",
        spec={"kafka": {"bootstrapServers": UNREACHABLE}},
    ),
    "missing-source-topic": Bad(
        reason="TopicNotFound", mentions=("no-such-topic", "create the topic"), condition="KafkaReachable",
        spec={"source": {"topics": ["no-such-topic"]}},
    ),
    "transaction-timeout-too-long": Bad(
        reason="TransactionTimeoutTooLong", mentions=("spec.sink.transactions.timeoutSeconds", "at most 900"),
        condition="KafkaReachable", spec={"sink": {"transactions": {"timeoutSeconds": 901}}}, fatal=True,
    ),
    "transform-does-not-import": Bad(
        reason="InvalidTransform", mentions=("ModuleNotFoundError", "nowhere", "spec.transform"),
        spec=python("enrich:transform"), code="import nowhere\n", fatal=True,
    ),
}  # fmt: skip


@dataclass
class Started:
    cluster_job: ClusterJob
    at: float


class BadJobs:
    """Starts the table's jobs in its order, the next two together with the tested job: all at once start slowly."""

    def __init__(self, make_cluster_job: MakeClusterJob) -> None:
        self._make_cluster_job = make_cluster_job
        self._started: dict[str, Started] = {}

    def started(self, name: str) -> Started:
        """The named job. It runs now, as do the next jobs of the table."""
        names = list(CASES)
        at = names.index(name)
        for due in names[at : at + SIDE_BY_SIDE]:
            if due not in self._started:
                self._started[due] = self._start(due)
        return self._started[name]

    def _start(self, name: str) -> Started:
        bad = CASES[name]
        cluster_job = self._make_cluster_job(name[:30])
        cluster_job.load(RECORDS)
        cluster_job.kubectl.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"enrich.py": bad.code}}
        )
        resource = cluster_job.resource(**bad.spec, restartPolicy={"backoff": {"initialSeconds": PAUSE_SECONDS}})
        cluster_job.kubectl.apply(addressed(resource, cluster_job))
        return Started(cluster_job, time.monotonic())


@pytest.fixture(scope="module")
def bad_jobs(make_cluster_job: MakeClusterJob) -> BadJobs:
    return BadJobs(make_cluster_job)


def addressed(resource: dict[str, Any], cluster_job: ClusterJob) -> dict[str, Any]:
    """Replaces the table's placeholder by an address where nobody listens."""
    kafka = resource["spec"]["kafka"]
    if kafka["bootstrapServers"] == UNREACHABLE:
        host = cluster_job.environment.bootstrap_pods.rpartition(":")[0]
        kafka["bootstrapServers"] = f"{host}:9"
    return resource


@pytest.mark.parametrize("name", CASES)
def test_the_first_attempt_reports_bad_input(name: str, bad_jobs: BadJobs) -> None:
    bad, started = CASES[name], bad_jobs.started(name)
    cluster_job, at = started.cluster_job, started.at
    status = cluster_job.job.wait(
        f"failed with {bad.reason}",
        lambda status: status.get("lastFailure", {}).get("reason") == bad.reason,
    )
    assert cluster_job.job.failures[0] == (1, bad.reason)
    failure = f"{status['lastFailure']['message']}; {status['lastFailure']['remedy']}"
    for part in bad.mentions:
        assert part in failure
    assert status["lastFailure"]["fatal"] is bad.fatal
    assert condition_of(status, "Ready")["status"] == "False"
    condition = condition_of(status, bad.condition)
    assert (condition["status"], condition["reason"]) == ("False", bad.reason), status["conditions"]
    for part in bad.mentions:
        assert part in condition["message"]
    events = [event for event in cluster_job.job.events() if event["reason"] == bad.reason]
    assert events
    assert all(event["type"] == "Warning" for event in events)

    if bad.fatal:
        assert status["state"] == "Failed"
        assert "nextRetryTime" not in status["restarts"]
    else:
        restarts = status["restarts"]["total"]
        assert status["restarts"]["consecutiveFailures"] == restarts
        pauses = sum(min(60, PAUSE_SECONDS * 2**number) for number in range(restarts - 1))
        assert pauses <= time.monotonic() - at, "pauses of 10 s, doubled each time"
    assert cluster_job.committed_offsets() == {}
    assert cluster_job.topics.ends(cluster_job.sink) == dict.fromkeys(range(4), 0)
    cluster_job.job.delete(wait=False)
