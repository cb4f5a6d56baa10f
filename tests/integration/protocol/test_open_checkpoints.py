"""Checkpoints that are open until their barrier (ADR 61), with the real pipeline and real processes of subtasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.model.job.spec import Engine
from tests.integration.protocol.conftest import Stories
from tests.support.kafka import visibility
from tests.support.protocol.moments import AHEAD, Ahead, End, Loss, Moment, TaskMoment
from tests.support.protocol.story import Story
from tests.support.protocol.subtask_process import MODULUS

SECONDS = 60.0
BEFORE, MEANWHILE = 30, 15
_TO_ALL = 18
"""Numbers for all partitions alike: three go to each in turn."""
PARALLELISM, POOL = 2, 5


@pytest.fixture
def job(story: Stories) -> Story:
    """An attempt that has completed a checkpoint, with records for another."""
    made = partial(story, engine=Engine.CONTINUOUS)()
    made.produce(BEFORE)
    made.start(PARALLELISM, POOL)
    made.checkpoint()
    made.produce(BEFORE)
    return made


def results(numbers: int) -> int:
    """How many of so many numbers the transform lets through."""
    return numbers - len(range(0, numbers, MODULUS))


def written(job: Story, numbers: int) -> None:
    """Waits until the subtasks have written what comes of so many numbers."""
    deadline = Deadline.after(SECONDS)
    while len(visibility.records(job.bootstrap, job.sink, isolation="read_uncommitted")) < results(numbers):
        assert not deadline.expired, job.history
        time.sleep(0.05)


def coming(job: Story) -> Callable[[], None]:
    """More records, which are written before the barrier."""

    def meanwhile() -> None:
        job.produce(MEANWHILE)
        written(job, 2 * BEFORE + MEANWHILE)

    return meanwhile


def test_records_before_the_barrier_are_of_the_checkpoint(job: Story) -> None:
    job.checkpoint(meanwhile=coming(job))
    assert sum(job.document.offsets.values()) == 2 * BEFORE + MEANWHILE
    assert len(visibility.records(job.bootstrap, job.sink)) == results(2 * BEFORE + MEANWHILE)
    job.finish()
    assert job.attempts == 1


@pytest.mark.parametrize("loss", [Loss.WORKER, Loss.COMES_BACK, Loss.EXECUTOR])
@pytest.mark.parametrize("moment", [TaskMoment.READ, TaskMoment.PRODUCED])
def test_a_subtask_that_is_lost_behind_the_barrier_is_replaced_and_reads_the_plan(
    loss: Loss, moment: TaskMoment, job: Story
) -> None:
    def meanwhile() -> None:
        job.produce(MEANWHILE)
        if moment is TaskMoment.PRODUCED:
            written(job, 2 * BEFORE + MEANWHILE)

    job.checkpoint((moment, lambda: loss), meanwhile=meanwhile)
    assert sum(job.document.offsets.values()) <= 2 * BEFORE + MEANWHILE
    job.finish()
    assert job.attempts == 1


@pytest.mark.parametrize("loss", [Loss.EXECUTOR, Loss.COMES_BACK])
def test_what_a_subtask_has_written_is_ended_when_its_next_try_has_no_records(loss: Loss, story: Stories) -> None:
    job = partial(story, engine=Engine.CONTINUOUS)()
    job.produce(BEFORE)
    job.start(PARALLELISM, POOL)
    job.checkpoint()
    for number in range(job.partitions):
        job.produce(3)  # of one partition, and of the next in the next turn
        planned = BEFORE + number * (3 + _TO_ALL) + 3

        def meanwhile(planned: int = planned) -> None:
            job.produce(_TO_ALL)
            written(job, planned + _TO_ALL)

        job.checkpoint((TaskMoment.PRODUCED, lambda: loss), meanwhile=meanwhile)
        assert job.open_transactions() == []
        job.checkpoint()
    job.finish()
    assert job.attempts == 1


@pytest.mark.parametrize("end", [End.KILL, End.FREEZE])
@pytest.mark.parametrize("moment", [Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS])
def test_an_attempt_ends_behind_the_barrier(moment: Moment, end: End, job: Story) -> None:
    job.checkpoint((moment, end), meanwhile=coming(job))
    job.start(PARALLELISM + 1, POOL)
    job.checkpoint(meanwhile=partial(job.produce, MEANWHILE), ahead=Ahead(Moment.AFTER_WRITE, None))
    job.finish()


@pytest.mark.parametrize("ahead", [each for each in AHEAD if each.to is None])
def test_the_next_checkpoint_is_open_while_one_becomes_final(ahead: Ahead, job: Story) -> None:
    for _ in range(3):
        job.produce(2 * BEFORE)
        job.checkpoint(meanwhile=partial(job.produce, MEANWHILE), ahead=ahead)
    job.finish()
    assert job.attempts == 1
