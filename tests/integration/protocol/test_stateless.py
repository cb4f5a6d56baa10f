"""A new revision begins without the checkpoint (ADR 97): what was open is settled, and the start happens once.

Readers see exactly what the starts read: all of it again where the job begins at the beginning, nothing twice and
nothing left out where it begins at the group's offsets.
"""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.spec import Engine
from sparkapp.model.job.startup import StartupMode
from tests.integration.protocol.conftest import Stories
from tests.support.kafka import visibility
from tests.support.protocol.moments import OF_A_CHECKPOINT, OF_A_START, End, Moment, Place, StoreWrite
from tests.support.protocol.story import Story

IN_A_START: tuple[Place, ...] = (
    *OF_A_START, *(StoreWrite(number, effective=effective) for number in range(1, 5) for effective in (False, True))
)  # fmt: skip
"""Writes of the document: the claim, what was settled, the stateless start, and where the partitions begin."""


def completed(story: Story) -> tuple[KafkaPartitionSplit, ...]:
    """All that has been read up to the last checkpoint."""
    return tuple(KafkaPartitionSplit(each.partition, 0, each.stop) for each in story.document.splits)


def judge(story: Story, *, again: tuple[KafkaPartitionSplit, ...]) -> None:
    """Another attempt resumes behind a checkpoint of the new revision, and everything is there as often as expected."""
    story.expect_again(again)
    if not story.running:
        story.start(2)
    story.checkpoint()
    story.kill()
    story.produce(30)
    story.finish(3)


@pytest.mark.parametrize("moment", IN_A_START, ids=str)
def test_a_driver_that_dies_at_a_step_of_the_start_neither_loses_nor_repeats_it(moment: Place, story: Stories) -> None:
    job = story()
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    assert job.document.committables, "what the start has to commit"
    again = completed(job)
    job.begin_stateless()
    job.start(2, stop=(moment, End.KILL))
    judge(job, again=again)


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_what_an_attempt_leaves_open_at_a_step_of_its_checkpoint_is_settled_first(
    moment: Moment, story: Stories
) -> None:
    job = story()
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    again = completed(job)
    job.begin_stateless()
    job.start(3)
    assert job.open_transactions() == []
    assert job.recovery is not None
    assert job.recovery.left is not None
    assert sorted(visibility.numbers(job.bootstrap, job.sink)) == job.written_of(again), "before anything is read again"
    judge(job, again=again)


def test_at_the_groups_offsets_nothing_is_repeated_or_left_out(story: Stories) -> None:
    job = story(startup=StartupMode.GROUP_OFFSETS)
    job.produce(60)
    job.start(2)
    for _ in range(2):
        job.checkpoint()
    job.drain()
    job.begin_stateless()
    judge(job, again=())


def test_an_attempt_that_continues_too_late_has_no_say(story: Stories) -> None:
    job = story()
    job.produce(60)
    job.start(2)
    job.checkpoint()
    again = completed(job)
    job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE))
    job.begin_stateless()
    job.start(2)
    assert job.thaw().failure is not None, "it is refused"
    judge(job, again=again)


def test_two_requests_are_two_starts(story: Stories) -> None:
    job = story()
    job.produce(30)
    for _ in range(2):
        job.start(2)
        job.checkpoint()
        job.kill()
        job.expect_again(completed(job))
        job.begin_stateless()
    judge(job, again=())


@pytest.mark.parametrize("moment", [None, *IN_A_START[:4]], ids=str)
def test_subtasks_that_commit_by_themselves_begin_again_too(moment: Place | None, story: Stories) -> None:
    job = story(engine=Engine.CONTINUOUS, local_pace=True)
    job.produce(60)
    job.run()
    again = completed(job)
    assert sorted(visibility.numbers(job.bootstrap, job.sink)) == job.written_of(again)
    job.begin_stateless()
    if moment is not None:
        job.start(2, stop=(moment, End.KILL))
    judge(job, again=again)
