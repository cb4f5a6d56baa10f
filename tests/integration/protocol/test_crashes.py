"""An attempt ends, or freezes and continues too late, at each moment of a start and of a checkpoint.

The next attempt runs with fewer, as many or more subtasks: every record once, no transaction left open.
"""

from __future__ import annotations

import itertools

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import TransactionLost
from sparkapp.model.job.sections.sink import OnTransactionLost
from sparkapp.model.job.spec import Engine
from tests.integration.protocol.conftest import Stories
from tests.support.kafka import visibility
from tests.support.protocol.moments import OF_A_CHECKPOINT, OF_A_START, End, Moment, TaskMoment
from tests.support.protocol.story import Story

FROM = 2
TO = {"same": 2, "up": 3, "down": 1}
RESCALES = [(1, 2, 3, 5, 6, 5, 3, 2, 1), (2, 5, 5, 2)]
"""Up first: an attempt that is wider than the previous attempt is wider than all before it."""


@pytest.mark.parametrize(("moment", "change"), list(zip(OF_A_CHECKPOINT, itertools.cycle(TO), strict=False)))
def test_I01_an_attempt_that_is_killed_in_a_checkpoint(moment: Moment, change: str, story: Stories) -> None:
    """The matrix (``faults/matrix.py``) has every moment with every change."""
    job = story()
    job.produce(60)
    job.start(FROM)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    job.produce(30)
    job.finish(TO[change])


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_I02_an_attempt_that_continues_in_the_middle_of_anothers_checkpoint(moment: Moment, story: Stories) -> None:
    """Two checkpoints of two attempts at a time; those of one attempt are in test_pipelining.py."""
    job = story()
    job.produce(60)
    job.start(FROM)
    job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE))
    job.start(FROM)
    job.checkpoint((moment, End.FREEZE))
    job.thaw()
    job.thaw()
    job.finish(FROM)


@pytest.mark.parametrize("moment", OF_A_START)
def test_an_attempt_that_is_killed_while_it_recovers(moment: Moment, story: Stories) -> None:
    job = story()
    job.produce(60)
    job.start(FROM)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    job.start(3, stop=(moment, End.KILL))
    job.produce(30)
    job.finish(1)


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_a_job_that_was_down_for_longer_than_its_transactions_live(moment: Moment, story: Stories) -> None:
    """The broker aborts what is open; what a document names of it is found lost and written again."""
    job = story(timeout=5)
    job.produce(60)
    job.start(FROM)
    job.checkpoint((moment, End.KILL))
    job.expire()
    job.finish(TO["up"])


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("moment", [Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.AFTER_COMMITS])
def test_C07_P11_a_job_that_is_to_fail_when_a_transaction_was_lost(
    moment: Moment, aligned: bool, story: Stories
) -> None:
    """It stops with nothing written and nothing open, as often as it is started, and may replay later all the same."""
    job = story(timeout=5, aligned=aligned, lost_policy=OnTransactionLost.FAIL)
    job.produce(60)
    job.start(2)
    job.checkpoint((moment, End.KILL))
    job.expire()
    if moment is Moment.AFTER_WRITE:
        for parallelism in (2, 3):
            job.start(parallelism)
            assert isinstance(job.failure, TransactionLost), job.failure
            assert all(each.transactional_id in job.failure.message for each in job.document.committables)
            assert '"onTransactionLost":"Replay"' in job.failure.remedy
            assert visibility.numbers(job.bootstrap, job.sink) == []
        job.lost_policy = OnTransactionLost.REPLAY
    job.start(3)
    assert job.failure is None
    job.produce(30)
    job.finish(3)


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_I03_a_new_prefix_after_a_crash(moment: Moment, story: Stories) -> None:
    job = story()
    job.produce(60)
    job.start(FROM)
    job.checkpoint((moment, End.KILL))
    job.change_prefix()
    job.finish(TO["down"])


@pytest.mark.parametrize("parallelisms", RESCALES)
def test_I05_rescaled_there_and_back_and_killed_each_time(parallelisms: tuple[int, ...], story: Stories) -> None:
    job = story(partitions=6)
    job.produce(400)
    for parallelism in parallelisms:
        job.start(parallelism)
        job.checkpoint()
        job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
        job.change_prefix()
    job.finish(parallelisms[-1])


def test_I04_killed_in_the_first_checkpoint_and_scaled_in(story: Stories) -> None:
    job = story(partitions=5)
    job.produce(100)
    job.start(5)
    job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
    job.finish(1)


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_I10_at_least_once_loses_nothing_and_repeats_what_no_document_has(moment: Moment, story: Stories) -> None:
    job = story(delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    job.produce(60)
    job.start(FROM)
    job.checkpoint((moment, End.KILL))
    repeated = job.finish(TO["up"])
    has_written = {Moment.AFTER_FLUSH}
    if job.engine is Engine.MICRO_BATCH:  # before the flush one task is done; in the other engine none has its work
        has_written.add(Moment.BEFORE_FLUSH)
    assert (repeated > 0) == (moment in has_written)


def test_none_loses_the_unsent_records_of_complete_checkpoints_and_no_others(story: Stories) -> None:
    """As Flink's ``Semantic.NONE``: after a long linger a restart loses records of previous checkpoints not sent yet.

    Records that are in no checkpoint are read again.
    """
    job = story(delivery_guarantee=DeliveryGuarantee.NONE, properties={"linger.ms": "60000"})
    job.produce(90)
    job.start(FROM)
    job.checkpoint()
    complete = job.document
    job.checkpoint((TaskMoment.PRODUCED, End.KILL))
    assert job.document.checkpoint_id == complete.checkpoint_id == 1
    job.run(parallelism=FROM)
    assert job.finish(TO["up"]) == 0
    assert job.lost == job.written_of(complete.splits) != []


def test_none_repeats_what_was_sent_since_the_last_checkpoint(story: Stories) -> None:
    job = story(delivery_guarantee=DeliveryGuarantee.NONE)
    job.produce(90)
    job.start(FROM)
    job.checkpoint()
    first = len(job.written_of(job.document.splits))
    await_records(job, first)

    def die() -> End:
        await_records(job, first + 1)
        return End.KILL

    job.checkpoint((Moment.AFTER_FLUSH, die))
    job.run(parallelism=FROM)
    assert job.finish(TO["up"]) > 0
    assert job.lost == []


def await_records(job: Story, count: int) -> None:
    """Until readers see this many."""
    deadline = Deadline.after(20)
    while len(visibility.numbers(job.bootstrap, job.sink)) < count:
        assert not deadline.expired, f"no {count} records"
