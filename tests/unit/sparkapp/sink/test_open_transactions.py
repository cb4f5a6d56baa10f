"""Which answers of the coordinators let a checkpoint become final; that they are theirs is proven on a real broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import TransactionFenced
from sparkapp.sink.open_transactions import OpenTransactions
from sparkapp.sink.transactions import TransactionDescription, TransactionState

OPEN = TransactionDescription(
    state=TransactionState.ONGOING, producer_id=7, producer_epoch=3, timeout_ms=1, start_time_ms=1
)
COMMITTABLES = [
    KafkaCommittable(
        transactional_id=f"p-{number}", producer_id=7, producer_epoch=3, transaction_version=1, checkpoint_id=4,
        subtask=number, records=1,
    )
    for number in range(3)
]  # fmt: skip


class Client:
    def __init__(self, **others: TransactionDescription | None) -> None:
        every = {f"p-{number}": OPEN for number in range(3)} | {k.replace("_", "-"): v for k, v in others.items()}
        self.answers = {one: found for one, found in every.items() if found is not None}
        self.asked: list[list[str]] = []

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        assert deadline is not None
        self.asked.append(list(transactional_ids))
        return self.answers


def test_all_are_asked_about_at_once() -> None:
    client = Client()
    OpenTransactions(client).require(COMMITTABLES)
    assert client.asked == [["p-0", "p-1", "p-2"]]


@pytest.mark.parametrize(
    "found",
    [
        replace(OPEN, producer_epoch=4), replace(OPEN, producer_id=8), None,
        *(replace(OPEN, state=state) for state in TransactionState if state is not TransactionState.ONGOING),
    ],
)  # fmt: skip
def test_one_that_is_not_open_or_not_its_writers_is_enough(found: TransactionDescription | None) -> None:
    with pytest.raises(TransactionFenced, match=r"checkpoint 4: p-1 was pre-committed with producer 7 epoch 3") as told:
        OpenTransactions(Client(p_1=found)).require(COMMITTABLES)
    assert not told.value.fatal
    assert "transactionTimeoutSeconds" in told.value.remedy
