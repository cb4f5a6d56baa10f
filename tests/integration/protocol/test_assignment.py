"""Which subtask reads what, by what they have read and written."""

from __future__ import annotations

from sparkapp.model.partition import split_owner
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import End, Loss, Moment, TaskMoment
from tests.support.protocol.story import Story


def _read(job: Story) -> dict[int, set[int]]:
    """The partitions of which each subtask has committed records in the last checkpoint."""
    return {
        each.subtask: {split.partition.partition for split in each.ranges if split.size}
        for each in job.document.committables
    }


def _shares(job: Story, parallelism: int) -> dict[int, set[int]]:
    shares: dict[int, set[int]] = {}
    for number in range(job.partitions):
        shares.setdefault(split_owner(job.source, number, parallelism), set()).add(number)
    return shares


def test_S07_what_is_discovered_is_read_when_there_is_a_subtask_for_it(story: Stories) -> None:
    """testReaderRegistrationTriggersAssignments: a discovery alone reads nothing, one subtask reads all, and each of
    two reads its own."""
    job = story(partitions=4)
    job.produce(40)
    job.start(1, stop=(Moment.AFTER_BEGIN, End.KILL))
    assert _read(job) == {}
    assert [split.size for split in job.document.splits] == [0] * 4, "discovered and placed, and nothing is read"
    job.start(1)
    job.checkpoint()
    assert _read(job) == {0: {0, 1, 2, 3}}
    job.produce(40)
    job.start(2)
    job.checkpoint()
    assert _read(job) == _shares(job, 2)
    job.finish(2)


def test_S09_the_splits_of_a_subtask_that_fails_are_read_again_from_where_they_were(story: Stories) -> None:
    """testAddSplitsBack: the subtask fails when it has read a part; another reader gets its splits with the offsets of
    the last checkpoint. So does the next attempt, where the driver fails as well."""
    job = story(per_checkpoint=20)
    job.produce(90)
    job.start(2)
    job.checkpoint()
    stops = {split.partition: split.stop for split in job.document.splits}
    assert sum(stops.values()) == 20
    job.checkpoint((TaskMoment.READ, lambda: Loss.WORKER))
    second = job.document.splits
    assert {split.partition: split.start for split in second} == stops
    job.checkpoint((TaskMoment.PRODUCED, End.KILL))
    assert job.document.splits == second, "the third checkpoint has failed"
    job.start(3)
    job.checkpoint()
    assert [split.start for split in job.document.splits] == [split.stop for split in second]
    job.finish(3)
