"""kill -9 of the driver at each of the five points of the protocol, on the real cluster.

What a crash means differs from point to point: before the document is written the checkpoint is lost and done again,
after that it is final and the next attempt commits what is left. What readers see must not differ at all.
"""

from __future__ import annotations

from sparkapp.model.protocol import ProtocolStep
from tests.e2e.conftest import MakeClusterJob

STEPS = tuple(ProtocolStep)
"""Attempt n is killed at the n-th of them."""
PER_CHECKPOINT = 2_000
AHEAD = 3
"""The checkpoint of the fault, counted from an attempt's first: two are complete, so the job is in full flight."""
RECORDS = (AHEAD * len(STEPS) + AHEAD) * PER_CHECKPOINT
"""A backlog that is worked off without pauses, and that outlasts the last fault."""


def is_written(step: ProtocolStep) -> bool:
    """Whether the document of the fault's checkpoint is written before the fault."""
    return step not in {ProtocolStep.BEFORE_FLUSH, ProtocolStep.AFTER_FLUSH}


def test_driver_killed_at_each_point_in_turn(make_cluster_job: MakeClusterJob) -> None:
    faults, finals, last = [], {}, 0
    for attempt, step in enumerate(STEPS, 1):
        faults.append(f"{step}@attempt={attempt},checkpoint={last + AHEAD}")
        last = finals[attempt] = last + AHEAD - (not is_written(step))
    cluster_job = make_cluster_job("kill")
    job = cluster_job.job
    cluster_job.load(RECORDS)
    cluster_job.apply(
        source={"limits": {"maxOffsetsPerCheckpoint": PER_CHECKPOINT}},
        restartPolicy={"backoff": {"initialSeconds": 1, "maxSeconds": 1}},
        **cluster_job.fault(";".join(faults)),
    )
    job.wait_ready(attempt_above=len(STEPS))
    cluster_job.assert_exactly_once(RECORDS)

    # Every fault has really happened, and at its point: its attempt wrote nothing after it.
    status = job.status
    assert status["attempt"]["id"] == len(STEPS) + 1
    assert status["restarts"]["total"] == len(STEPS)
    assert job.failures == [(attempt, "DriverKilled") for attempt in finals]
    assert status["lastFailure"]["fatal"] is False
    history = job.state.history
    written = {attempt: [each for each in history if each.attempt == attempt] for attempt in (*finals, len(STEPS) + 1)}
    assert {attempt: max(each.checkpoint for each in written[attempt]) for attempt in finals} == finals
    for attempt, step in enumerate(STEPS, 1):
        if not is_written(step):
            aborted = written[attempt + 1][-1].aborted - written[attempt][-1].aborted
            assert aborted > 0, f"attempt {attempt} left transactions, and the next attempt aborted them"
    assert cluster_job.committed_offsets() == cluster_job.topics.ends(cluster_job.source)
    job.delete(wait=False)
