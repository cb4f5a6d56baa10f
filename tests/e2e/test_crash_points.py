"""kill -9 of the driver at each of the five points of the protocol, on the real cluster.

What a crash means differs from point to point: before the document is written the checkpoint is lost and done again,
after that it is final and the next attempt commits what is left. What readers see must not differ at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkapp.model.protocol import ProtocolStep
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import ClusterJob

RECORDS = 20_000
PER_CHECKPOINT = 2_000
"""The backlog takes ten checkpoints, worked off without pauses: the fault hits the job in full flight."""
CHECKPOINT_OF_THE_FAULT = 3


@pytest.fixture(scope="module")
def crashing(make_cluster_job: MakeClusterJob) -> Iterator[dict[ProtocolStep, ClusterJob]]:
    """One job for each point, all started at once: most of a start is waiting."""
    sites = {}
    for step in ProtocolStep:
        cluster_job = sites[step] = make_cluster_job(f"kill-{step}")
        cluster_job.load(RECORDS)
        cluster_job.apply(
            source={"limits": {"maxOffsetsPerCheckpoint": PER_CHECKPOINT}},
            **cluster_job.fault(f"{step}@attempt=1,checkpoint={CHECKPOINT_OF_THE_FAULT}"),
        )
    return sites


@pytest.mark.parametrize("step", ProtocolStep)
def test_driver_killed_at(step: ProtocolStep, crashing: dict[ProtocolStep, ClusterJob]) -> None:
    cluster_job = crashing[step]
    cluster_job.job.wait_ready(attempt_above=1)
    cluster_job.assert_exactly_once(RECORDS)

    # The fault has really happened, and at its point: attempt 1 wrote nothing after it.
    status = cluster_job.job.status
    assert status["attempt"]["id"] == 2
    assert status["restarts"]["total"] == 1
    assert status["lastFailure"]["attempt"] == 1
    assert status["lastFailure"]["fatal"] is False
    last = max(document.checkpoint for document in cluster_job.job.state.history if document.attempt == 1)
    written = step in {ProtocolStep.AFTER_WRITE, ProtocolStep.BETWEEN_COMMITS, ProtocolStep.AFTER_COMMITS}
    assert last == CHECKPOINT_OF_THE_FAULT - (not written)
    if step in {ProtocolStep.BEFORE_FLUSH, ProtocolStep.AFTER_FLUSH}:
        assert status["transactions"]["aborted"] > 0, (
            "the killed attempt left transactions, and the next one aborted them"
        )
    assert cluster_job.committed_offsets() == cluster_job.topics.ends(cluster_job.source)
    cluster_job.job.delete(wait=False)
