"""Going back to an earlier checkpoint on a real broker: what was read after it is visible exactly once more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointNotRetained
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.partition import TopicPartition
from tests.support.protocol.moments import End, Moment, StoreWrite
from tests.support.protocol.story import Story

Offsets = Mapping[TopicPartition, int]


@pytest.fixture
def job(job: Story) -> Story:
    """Has completed four checkpoints and stopped in order; a third of the records is still to be read."""
    job.run(4)
    assert sorted(job.kept) == [1, 2, 3, 4]
    return job


def between(earlier: Offsets, later: Offsets) -> list[KafkaPartitionSplit]:
    return [KafkaPartitionSplit(each, earlier[each], end) for each, end in later.items() if earlier[each] < end]


def test_what_was_read_after_it_is_visible_once_more_and_all_else_once(job: Story) -> None:
    job.expect_again(between(job.kept[2].offsets, job.document.offsets))
    job.restore = Restore(checkpoint=2, nonce=1)
    job.run()
    assert job.recovery is not None
    assert job.recovery.restored is not None
    assert job.recovery.restored.rewind.records == 20
    assert job.document.checkpoint_id == 4 + 1 + 4, "the numbers continue: four, the restore, forty records in tens"
    job.run()
    assert job.recovery.restored is None, "the nonce has been served"
    job.finish()


@pytest.mark.parametrize(
    "moment", [Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS]
)
@pytest.mark.parametrize("fenced", [False, True])
def test_a_crash_in_the_first_checkpoint_after_it_changes_nothing(job: Story, moment: Moment, fenced: bool) -> None:
    """The marks on the group's offsets prove what became of each transaction, although the group was far ahead."""
    job.expect_again(between(job.kept[2].offsets, job.document.offsets))
    job.restore = Restore(checkpoint=2, nonce=1)
    job.start(2)
    job.checkpoint((moment, End.KILL))
    if fenced:
        job.fence()
    job.run()
    assert job.recovery is not None
    assert job.recovery.restored is None
    if fenced:
        lost = {Moment.AFTER_WRITE: 2, Moment.BETWEEN_COMMITS: 1}.get(moment, 0)
        assert len(job.recovery.lost) == lost
    job.finish()


@pytest.mark.parametrize("write", [1, 2, 3])
@pytest.mark.parametrize("effective", [False, True])
def test_a_crash_at_any_write_of_the_restore_neither_loses_nor_repeats_it(
    job: Story, write: int, effective: bool
) -> None:
    """The claim, the restore, the offsets that the attempt starts from."""
    job.expect_again(between(job.kept[1].offsets, job.document.offsets))
    job.restore = Restore(checkpoint=1, nonce=3)
    job.start(2, stop=(StoreWrite(write, effective), End.KILL))
    assert (job.document.redeploy_nonce == 3) == ((write, effective) >= (2, True))
    job.run()
    job.finish()


def test_transactions_of_the_current_checkpoint_are_settled_first(job: Story) -> None:
    job.start(2)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    before = job.document
    assert before.committables
    job.expect_again(between(job.kept[3].offsets, before.offsets))
    job.restore = Restore(checkpoint=3, nonce=1)
    job.run()
    assert job.recovery is not None
    assert job.recovery.committed == len(before.committables)
    job.finish()


def test_lost_transactions_of_the_current_checkpoint_are_not_read_thrice(job: Story) -> None:
    job.start(2)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    started = {split.partition: split.start for split in job.document.splits}
    job.fence()
    job.expect_again(between(job.kept[3].offsets, started))
    job.restore = Restore(checkpoint=3, nonce=1)
    job.run()
    job.finish()


def test_there_and_back_again(job: Story) -> None:
    """A later checkpoint of before the restore can be gone back to as well: nothing of it is written a third time."""
    last = job.document.offsets
    job.restore = Restore(checkpoint=1, nonce=1)
    job.run(1)
    written_again = between(job.kept[1].offsets, job.document.offsets)
    assert sum(split.size for split in written_again) == 10, "one checkpoint, before the way back"
    job.expect_again(written_again)
    assert job.kept[4].offsets == last
    job.restore = Restore(checkpoint=4, nonce=2)
    job.run()
    job.finish()


def test_a_checkpoint_that_is_not_kept_stops_the_job_where_it_is(job: Story) -> None:
    before = job.document.offsets
    job.restore = Restore(checkpoint=77, nonce=1)
    job.run()
    assert isinstance(job.failure, CheckpointNotRetained)
    assert "checkpoint 77 is not retained; retained are 4 (2026-11-21T08" in job.failure.message
    assert job.document.offsets == before
    job.expect_again(between(job.kept[2].offsets, before))
    job.restore = Restore(checkpoint=2, nonce=1)
    job.run()
    job.finish()
