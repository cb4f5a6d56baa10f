"""Another delivery guarantee from one attempt to the next: what the previous attempt left is settled by its own rules,
whatever the new one's are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkapp.model.checkpoint.naming import NO_SLOTS, TransactionNaming
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.transactional_id import FIRST_HINT
from tests.integration.protocol.conftest import Stories
from tests.support.jobs.sink_harness import Harness
from tests.support.kafka import visibility
from tests.support.protocol.moments import OF_A_CHECKPOINT, OF_A_START, End, Moment

EXACTLY, AT_LEAST = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE
_UNWRITTEN = {Moment.BEFORE_FLUSH, Moment.AFTER_FLUSH}
"""No document has what was written by then."""


@pytest.mark.pairs
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("naming", TransactionNaming)
@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_T10_from_exactly_once_to_at_least_once(
    moment: Moment, naming: TransactionNaming, first: bool, story: Stories
) -> None:
    """Also in its first checkpoint, of which no document is left: what is open then holds every reader up."""
    job = story(naming=naming)
    job.produce(60)
    job.start(2)
    if not first:
        job.checkpoint()
    job.checkpoint((moment, End.KILL))
    job.change_semantic(AT_LEAST)
    assert job.finish(3) == 0, "nothing that was open has become visible, and nothing else was repeated"
    assert (job.document.hint, job.document.slots) == (FIRST_HINT, NO_SLOTS), "a job without transactions has no ids"


@pytest.mark.parametrize("moment", OF_A_START)
def test_T10_an_attempt_that_ends_while_it_recovers_from_the_other_semantic(moment: Moment, story: Stories) -> None:
    job = story()
    job.produce(60)
    job.start(2)
    job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
    job.change_semantic(AT_LEAST)
    job.start(2, stop=(moment, End.KILL))
    assert job.finish(1) == 0


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_T09_from_at_least_once_to_exactly_once(moment: Moment, story: Stories) -> None:
    job = story(delivery_guarantee=AT_LEAST)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    written = job.document
    job.change_semantic(EXACTLY)
    job.produce(30)
    job.start(3)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    assert job.document.checkpoint_id == written.checkpoint_id + 1
    # Readers judge by the first attempt's guarantee; the second attempt adds nothing to it.
    job.change_semantic(AT_LEAST)
    repeated = job.finish(2)
    assert (repeated > 0) == (moment in _UNWRITTEN)


def test_T09_T10_there_and_back_with_ids_of_before(story: Stories) -> None:
    """The second such attempt counts its ids from 0 and fences every id, as a first start does."""
    job = story()
    job.produce(150)
    job.start(3)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE))
    job.change_semantic(AT_LEAST)
    job.start(2)
    job.checkpoint()
    job.change_semantic(EXACTLY)
    job.start(2)
    job.checkpoint((Moment.BETWEEN_COMMITS, End.KILL))
    job.start(2)
    job.checkpoint()
    job.thaw()
    assert job.finish(3) == 0


@pytest.mark.parametrize("delivery_guarantee", [AT_LEAST, DeliveryGuarantee.NONE])
def test_a_job_that_never_had_transactions_does_not_look_for_them(
    delivery_guarantee: DeliveryGuarantee, story: Stories, harness: Callable[..., Harness]
) -> None:
    """It may have no right to, and another job may have them under a prefix that it does not use."""
    job = story(delivery_guarantee=delivery_guarantee)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    assert not job.document.transactional
    other = harness(prefix=job.prefix).open()
    other.write(1)
    job.start(2)
    assert job.recovery is not None
    assert job.recovery.aborted == 0
    assert visibility.open_transactions(job.client, job.prefix) == [f"{job.prefix}-1"]
