"""An attempt whose subtasks write the next checkpoint while one becomes final ends anywhere (ADR 50).

With the real pipeline and real processes of subtasks. Every record once, no transaction left open.
"""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from sparkapp.model.job.spec import Engine
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import AHEAD, Ahead, End, Loss, Moment, TaskMoment
from tests.support.protocol.story import Story

POOL = 3
FROM = 2
TO = {"same": 2, "up": 3, "down": 1}
ENDS = [
    *((ahead, End.KILL) for ahead in AHEAD),
    *((ahead, End.FREEZE) for ahead in AHEAD if ahead.to is None),
]
CASES = [
    (*end, change, opens_ahead)
    for end, change, opens_ahead in zip(
        ENDS, itertools.cycle(TO), itertools.cycle([True, False, True, True, False]), strict=False
    )
]
EVERY_PRE_COMMITTED = Ahead(Moment.AFTER_FLUSH, None)


@pytest.fixture
def story(story: Stories) -> Stories:
    """Stories of the continuous engine."""
    return partial(story, engine=Engine.CONTINUOUS)


def begun(job: Story, count: int = 120) -> Story:
    """An attempt that has completed a checkpoint, with records for three more."""
    job.produce(count)
    job.start(FROM, POOL + 2 * job.opens_ahead)
    job.checkpoint()
    job.produce(count)
    return job


@pytest.mark.parametrize("moment", list(TaskMoment))
@pytest.mark.parametrize("opens_ahead", [True, False])
def test_another_subtask_does_the_work_of_one_that_has_no_place(
    moment: TaskMoment, opens_ahead: bool, story: Stories
) -> None:
    job = begun(story(opens_ahead=opens_ahead))
    for _ in range(2):
        job.checkpoint((moment, lambda: Loss.STAYS_AWAY), ahead=EVERY_PRE_COMMITTED)
        job.checkpoint()
        job.produce(60)
    assert job.attempts == 1
    job.finish()


@pytest.mark.parametrize(("ahead", "end", "change", "opens_ahead"), CASES)
def test_an_attempt_ends_with_two_checkpoints_under_way(
    ahead: Ahead, end: End, change: str, opens_ahead: bool, story: Stories
) -> None:
    job = begun(story(opens_ahead=opens_ahead))
    before = job.document.checkpoint_id
    job.checkpoint((ahead.at, end), ahead=ahead)
    written = ahead.at is not Moment.AFTER_FLUSH
    assert job.document.checkpoint_id == before + written
    job.start(TO[change], POOL + 2 * opens_ahead)
    job.checkpoint(ahead=EVERY_PRE_COMMITTED)
    job.finish(TO[change])
    if end is End.KILL:
        assert job.failures == []


@pytest.mark.parametrize("moment", [Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS])
def test_the_next_checkpoint_is_pre_committed_before_the_document_of_the_one_before(
    moment: Moment, story: Stories
) -> None:
    job = begun(story())
    job.checkpoint((moment, End.KILL), ahead=EVERY_PRE_COMMITTED)
    job.finish(TO["up"])
    assert job.failures == []


@pytest.mark.parametrize(("to", "opens_ahead"), list(zip([*TaskMoment, None], [True, False, False, True], strict=True)))
def test_checkpoints_follow_each_other(to: TaskMoment | None, opens_ahead: bool, story: Stories) -> None:
    """More of them than the pool has slots, then an orderly stop with one under way."""
    job = begun(story(per_checkpoint=20, opens_ahead=opens_ahead))
    for at in 2 * [each.at for each in AHEAD if each.to is to]:
        job.checkpoint(ahead=Ahead(at, to))
    job.drain()
    assert job.failures == []
    assert job.document.drained
    job.finish(FROM)


def test_the_group_keeps_the_offsets_of_the_newest_checkpoint(story: Stories) -> None:
    """Subtasks that write nothing have their offsets committed after the checkpoint. Such a commit must not reach the
    group behind the offsets of the next checkpoint's transactions: by its mark these would be lost."""
    job = story(per_checkpoint=60)
    job.produce(60)
    job.start(FROM, POOL)
    job.checkpoint()
    job.produce(60, silent={0, 1, 2})
    job.produce(60)
    job.checkpoint(ahead=EVERY_PRE_COMMITTED)
    job.checkpoint((Moment.AFTER_COMMITS, End.KILL))
    job.fence()
    job.start(FROM, POOL)
    assert job.recovery is not None
    assert job.recovery.lost == (), "by their coordinators nothing is known, by the group everything is committed"
    job.finish(FROM)


@pytest.mark.parametrize("moment", [Moment.AFTER_WRITE, Moment.AFTER_COMMITS])
def test_transactions_that_are_lost_while_the_next_are_open_are_proven_lost(moment: Moment, story: Stories) -> None:
    """The group's offsets are read only when the transactions of the younger checkpoint are gone."""
    job = begun(story())
    job.checkpoint((moment, End.KILL), ahead=EVERY_PRE_COMMITTED)
    job.fence()
    job.start(FROM, POOL)
    assert job.recovery is not None
    assert bool(job.recovery.lost) == (moment is Moment.AFTER_WRITE)
    job.finish(FROM)


@pytest.mark.parametrize(
    ("loss", "to"),
    [
        (Loss.WORKER, TaskMoment.READ),
        (Loss.WORKER, None),
        (Loss.EXECUTOR, None),
        (Loss.STANDS_STILL, TaskMoment.PRODUCED),
        (Loss.COMES_BACK, TaskMoment.BEGUN),
        (Loss.COMES_BACK, TaskMoment.READ),
    ],
)
def test_a_worker_is_lost_with_two_checkpoints_under_way(loss: Loss, to: TaskMoment | None, story: Stories) -> None:
    job = begun(story())
    job.checkpoint((Moment.AFTER_WRITE, lambda: loss), ahead=Ahead(Moment.AFTER_WRITE, to))
    job.checkpoint()
    assert loss is Loss.COMES_BACK or job.failures == []
    job.finish(FROM)
    assert len(job.failures) <= 1, "a producer that the old process still opened has fenced the new process"


def test_a_superseded_attempt_completes_neither_checkpoint(story: Stories) -> None:
    job = begun(story())
    job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE), ahead=EVERY_PRE_COMMITTED)
    job.start(FROM, POOL)
    job.checkpoint()
    superseded = job.thaw()
    assert superseded.failure is not None
    assert job.document.attempt == 2
    job.finish(FROM)
