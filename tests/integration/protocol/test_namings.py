"""Transactional ids by subtask and slot, where attempts begin with the same ids; and changes of the naming."""

from __future__ import annotations

import itertools

import pytest

from sparkapp.model.checkpoint.naming import SlotBounds, TransactionNaming
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import OF_A_CHECKPOINT, End, Moment

HINT, SLOT = TransactionNaming.HINT, TransactionNaming.SUBTASK_AND_SLOT


@pytest.mark.parametrize(("moment", "to"), [(Moment.BETWEEN_COMMITS, 1), (Moment.AFTER_WRITE, 3)])
def test_I01_an_attempt_that_is_killed_in_a_checkpoint(moment: Moment, to: int, story: Stories) -> None:
    job = story(naming=SLOT)
    job.produce(60)
    job.start(2, 4)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    job.produce(30)
    job.finish(to)


@pytest.mark.parametrize(("moment", "end"), [(Moment.AFTER_ABORT, End.KILL), (Moment.AFTER_BEGIN, End.FREEZE)])
def test_an_attempt_that_ends_while_it_recovers(moment: Moment, end: End, story: Stories) -> None:
    job = story(naming=SLOT)
    job.produce(60)
    job.start(2, 5)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    job.start(4, 3, stop=(moment, end))
    begun = moment is Moment.AFTER_BEGIN
    assert job.document.slots == SlotBounds(4 if begun else 2, 5), "recorded before anything is written, never reduced"
    job.produce(30)
    job.finish(1)


@pytest.mark.parametrize(
    ("moment", "naming"), list(zip(OF_A_CHECKPOINT, itertools.cycle(TransactionNaming), strict=False))
)
def test_A16_another_naming_after_a_crash(moment: Moment, naming: TransactionNaming, story: Stories) -> None:
    job = story(naming=naming)
    job.produce(60)
    job.start(2)
    job.checkpoint((moment, End.KILL))
    job.change_naming()
    job.start(3)
    job.checkpoint((moment, End.FREEZE))
    job.change_naming()
    job.finish(1)


def test_I05_rescaled_there_and_back_with_other_pools_and_killed_each_time(story: Stories) -> None:
    job = story(partitions=6, naming=SLOT)
    job.produce(300)
    for parallelism, pool in ((2, 5), (5, 2), (1, 4), (6, 3)):
        job.start(parallelism, pool)
        job.checkpoint()
        job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
    assert job.document.slots == SlotBounds(6, 5)
    job.finish(3)


def test_a_job_that_was_down_for_longer_than_its_transactions_live(story: Stories) -> None:
    job = story(timeout=5, naming=SLOT)
    job.produce(60)
    job.start(2)
    job.checkpoint((Moment.BETWEEN_COMMITS, End.KILL))
    job.expire()
    job.finish(3)
