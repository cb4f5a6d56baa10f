"""A driver that stood still while other attempts took over: what it can still do on Kafka when it resumes."""

from __future__ import annotations

import pytest

from sparkapp.model.errors import CheckpointConflict
from tests.integration.protocol.conftest import Stories
from tests.support.protocol_moments import End, Moment


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("moment", [Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS])
def test_A2_a_sweep_of_a_superseded_start_ends_nothing(moment: Moment, aligned: bool, story: Stories) -> None:
    """Attempt 2 is frozen between its claim and its sweep; the transactions that are open by then are attempt 3's."""
    job = story(aligned=aligned)
    job.produce(40)
    job.start(2)
    job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
    job.start(2, stop=(Moment.AFTER_CLAIM, End.FREEZE))
    job.start(2)
    job.checkpoint((moment, End.FREEZE))
    described = job.client.describe(one.transactional_id for one in job.document.committables)
    superseded = job.thaw()
    assert isinstance(superseded.failure, CheckpointConflict), superseded.failure
    assert job.client.describe(described) == described
    job.start(2)
    assert job.recovery is not None
    assert job.recovery.lost == (), "committed by attempt 4, each of them"
    assert job.recovery.committed == len(described)
    job.finish(2)
