"""Which answers of the coordinators let a checkpoint become final; that they are theirs is proven on a real broker."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import TransactionDescription, TransactionState
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import TransactionFenced
from sparkapp.sink.pre_commit_check import PreCommitCheck, TransactionAges
from tests.support.fakes.transaction_client import FakeTransactionClient

OPEN = TransactionDescription(
    state=TransactionState.ONGOING, producer_id=7, producer_epoch=3, timeout_ms=60_000, start_time_ms=1_000_000
)
LASTING = replace(OPEN, timeout_ms=900_000_000)
COMMITTABLES = [
    KafkaCommittable(
        transactional_id=f"p-{number}", producer_id=7, producer_epoch=3, checkpoint_id=4,
        subtask=number, records=1,
    )
    for number in range(3)
]  # fmt: skip


class Client(FakeTransactionClient):
    """All three transactions are open, but for the others."""

    def __init__(self, **others: TransactionDescription | None) -> None:
        every = {f"p-{number}": OPEN for number in range(3)} | {k.replace("_", "-"): v for k, v in others.items()}
        super().__init__({name: found for name, found in every.items() if found is not None})

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        assert deadline is not None
        return super().describe(transactional_ids, deadline=deadline)


def asking(client: Client, *, at: float) -> PreCommitCheck:
    return PreCommitCheck(client, clock=lambda: at)


def test_all_are_asked_about_at_once() -> None:
    client = Client()
    asking(client, at=1.0).require(COMMITTABLES, began=0.0)
    assert client.asked == [("describe", ["p-0", "p-1", "p-2"])]


@pytest.mark.parametrize(
    "found",
    [
        replace(OPEN, producer_epoch=4), replace(OPEN, producer_id=8), None,
        *(replace(OPEN, state=state) for state in TransactionState if state is not TransactionState.ONGOING),
    ],
)  # fmt: skip
def test_one_that_is_not_open_or_not_its_writers_is_enough(found: TransactionDescription | None) -> None:
    with pytest.raises(
        TransactionFenced, match=r"checkpoint 4: p-1 was pre-committed with producer 7 epoch 3"
    ) as caught:
        asking(Client(p_1=found), at=1.0).require(COMMITTABLES, began=0.0)
    assert not caught.value.fatal
    assert "transactions.timeoutSeconds" in caught.value.remedy


@pytest.mark.parametrize(("start", "is_it"), [(1_000_000, True), (0, True), (999_999, False), (1_000_001, False)])
def test_another_transaction_of_the_same_producer_is_not_it(start: int, is_it: bool) -> None:
    """It was ended, and a later request of its producer has opened the next. 0: the writer does not know the start."""
    known = [replace(each, start_time_ms=start) for each in COMMITTABLES]
    with nullcontext() if is_it else pytest.raises(TransactionFenced):
        asking(Client(), at=1.0).require(known, began=0.0)


@pytest.mark.parametrize(
    ("timeout", "age", "write", "left"),
    # timeout, age, seconds for the write, seconds until the time-out
    [(900, 829.9, 10.1, 70.1), (900, 1, 839, 899), (60, 44.9, 3.1, 15.1), (10, 7.4, 0.6, 2.6), (10, 0, 8, 10)],
)
def test_C8_a_write_has_what_the_transactions_have_left_less_the_time_of_a_commit(
    timeout: int, age: float, write: float, left: float
) -> None:
    client = Client(p_1=replace(OPEN, timeout_ms=timeout * 1000), **dict.fromkeys(("p_0", "p_2"), LASTING))
    times = asking(client, at=100 + age).require(COMMITTABLES, began=100.0)
    assert times.write_by.remaining == pytest.approx(write)
    assert times.commit_by.remaining == pytest.approx(left)


@pytest.mark.parametrize(("timeout", "age"), [(900, 830.1), (60, 45.1), (10, 7.6), (10, 9.4), (10, 11)])
def test_C8_a_transaction_that_may_end_during_write_and_commit_is_in_no_document(timeout: int, age: float) -> None:
    client = Client(p_1=replace(OPEN, timeout_ms=timeout * 1000), **dict.fromkeys(("p_0", "p_2"), LASTING))
    with pytest.raises(
        TransactionFenced, match=rf"checkpoint 4: p-1 is open for up to .* of its {timeout} s"
    ) as caught:
        asking(client, at=100 + age).require(COMMITTABLES, began=100.0)
    assert "transactions.timeoutSeconds" in caught.value.remedy


@pytest.mark.parametrize("ahead", [-7200, -0.5, 0, 0.5, 7200])
def test_C8_an_age_is_never_too_small_whatever_the_brokers_clock_says(ahead: float) -> None:
    ages = TransactionAges()

    def seen(began: float, start: float, now: float) -> float:
        """A transaction that began at ``start`` of our clock."""
        return ages.at_most("p-0", round((start + 10_000 + ahead) * 1000), began=began, now=now)

    assert seen(0, 30, 40) == pytest.approx(40), "nothing is known of the clock: since its checkpoint began"
    assert seen(50, 50.5, 51) == pytest.approx(1)
    assert seen(60, 90, 100) == pytest.approx(10.5), "the clock is known to half a second: a late start counts as late"
    assert ages.at_most("p-0", -1, began=60, now=100) == 40


def test_a_coordinator_whose_clock_is_ahead_makes_no_transaction_younger() -> None:
    ages = TransactionAges()
    assert ages.at_most("p-0", 1_000_000, began=100, now=101) == 1
    assert ages.at_most("p-0", 1_031_000, began=101, now=103) == 2, "its clock is 30 s ahead, and not the future's"
    assert ages.at_most("p-0", 1_033_000, began=103, now=158) == 55
