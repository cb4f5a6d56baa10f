"""A driver that stood still while other attempts took over: what it can still do on Kafka when it resumes."""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.errors import CheckpointConflict
from tests.integration.protocol.conftest import Stories
from tests.support.kafka import visibility
from tests.support.protocol.moments import End, Moment
from tests.support.protocol.story import Story


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
    visibility.await_ended(job.client, job.prefix)
    described = job.client.describe(each.transactional_id for each in job.document.committables)
    superseded = job.thaw()
    assert isinstance(superseded.failure, CheckpointConflict), superseded.failure
    assert job.client.describe(described) == described
    job.start(2)
    assert job.recovery is not None
    assert job.recovery.lost == (), "committed by attempt 4, each of them"
    assert job.recovery.committed == len(described)
    job.finish(2)


def _goes_on_behind_the_last_checkpoint(job: Story) -> None:
    """The next attempt finds it committed, although somebody has taken over its ids."""
    job.fence()
    job.start(2)
    assert job.failure is None, job.failure
    assert job.recovery is not None
    assert job.recovery.lost == (), "it was committed, and is written a second time"


@pytest.mark.parametrize("naming", TransactionNaming)
def test_A1_offsets_of_a_superseded_checkpoint_are_refused(naming: TransactionNaming, story: Stories) -> None:
    """Attempt 1 is frozen behind its commits, before it commits the offsets of a subtask that wrote nothing. Attempt 2
    commits checkpoint 2 of the same partitions, and dies before the third document.
    """
    job = story(partitions=2, naming=naming)
    job.produce(12, silent={1})
    job.start(2)
    job.checkpoint((Moment.AFTER_COMMITS, End.FREEZE))
    assert len(job.document.committables) == 1
    job.produce(12)
    job.start(2)
    job.checkpoint((Moment.AFTER_COMMITS, End.KILL))
    assert len(job.document.committables) == 2
    assert isinstance(job.thaw().failure, CheckpointConflict)
    _goes_on_behind_the_last_checkpoint(job)
    job.finish(2)


@pytest.mark.parametrize("naming", TransactionNaming)
def test_A1_marks_of_a_superseded_start_are_refused(naming: TransactionNaming, story: Stories) -> None:
    """Attempt 1 is frozen before its first checkpoint, where it marks where each partition starts."""
    job = story(naming=naming)
    job.produce(40)
    job.start(2, stop=(Moment.AFTER_BEGIN, End.FREEZE))
    job.start(2)
    job.checkpoint((Moment.AFTER_COMMITS, End.KILL))
    assert isinstance(job.thaw().failure, CheckpointConflict)
    _goes_on_behind_the_last_checkpoint(job)
    job.finish(2)
