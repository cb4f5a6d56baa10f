"""kill -9 of the driver at each of the five points of the protocol, on the real cluster.

What a crash means differs from point to point: before the document is written the checkpoint is lost and done again,
after that it is final and the next attempt commits what is left. What readers see must not differ at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkapp.model.protocol import ProtocolStep
from tests.e2e.conftest import MakeSite
from tests.support.job_site import JobSite

pytestmark = pytest.mark.timeout(600)

RECORDS = 20_000
PER_CHECKPOINT = 2_000
"""The backlog takes ten checkpoints, worked off without pauses: the fault hits the job in full flight."""
CHECKPOINT_OF_THE_FAULT = 3


@pytest.fixture(scope="module")
def crashing(make_site: MakeSite) -> Iterator[dict[ProtocolStep, JobSite]]:
    """One job for each point, all started at once: most of a start is waiting."""
    sites = {}
    for step in ProtocolStep:
        site = sites[step] = make_site(f"kill-{step}")
        site.load(RECORDS)
        fault = f"{step}@attempt=1,checkpoint={CHECKPOINT_OF_THE_FAULT}"
        site.apply(
            source={"maxOffsetsPerCheckpoint": PER_CHECKPOINT},
            driver={"env": [{"name": "KAFKASPARK_FAULT", "value": fault}]},
        )
    return sites


@pytest.mark.parametrize("step", ProtocolStep)
def test_driver_killed_at(step: ProtocolStep, crashing: dict[ProtocolStep, JobSite]) -> None:
    site = crashing[step]
    site.job.wait_ready(attempt_above=1, seconds=400)
    site.assert_exactly_once(RECORDS, seconds=200)

    # The fault has really happened, and at its point: attempt 1 wrote nothing after it.
    status = site.job.status
    assert status["attempt"]["id"] == 2
    assert status["restarts"]["total"] == 1
    assert status["lastFailure"]["attempt"] == 1
    assert status["lastFailure"]["fatal"] is False
    last = max(document.checkpoint for document in site.job.state.history if document.attempt == 1)
    written = step in {ProtocolStep.AFTER_WRITE, ProtocolStep.BETWEEN_COMMITS, ProtocolStep.AFTER_COMMITS}
    assert last == CHECKPOINT_OF_THE_FAULT if written else CHECKPOINT_OF_THE_FAULT - 1
    if step in {ProtocolStep.BEFORE_FLUSH, ProtocolStep.AFTER_FLUSH}:
        assert status["transactions"]["aborted"] > 0, (
            "the killed attempt left transactions, and the next one aborted them"
        )
    assert site.committed_offsets() == site.topics.ends(site.source)
    site.job.delete(wait=False)
