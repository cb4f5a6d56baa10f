"""The start of an open checkpoint's transaction is asked for before the barrier, and not behind the flush."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.clients.transactions.states import TransactionDescription, TransactionState
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import TransactionFenced
from sparkapp.model.job.spec import Sink
from sparkapp.sink import exactly_once_writer
from sparkapp.sink.delivery import writer_of
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.writer import KafkaWriter

RECORDS = pa.RecordBatch.from_pydict({"value": [1, 2]})


class Coordinator:
    """Of one id. A transaction is open once its first records have come."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.asked = 0
        self.epoch = -1
        self.state = TransactionState.EMPTY
        self.start = -1

    def describe(self, ids: Iterable[str]) -> dict[str, TransactionDescription]:
        self.asked += 1
        return {
            each: TransactionDescription(
                state=self.state, producer_id=7, producer_epoch=self.epoch, timeout_ms=60_000, start_time_ms=self.start
            )
            for each in ids
        }

    def begin(self) -> None:
        self.state, self.start = TransactionState.ONGOING, int(self.now * 1000)


class Producer:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._written = 0

    def init_transactions(self, timeout: float, *, wanted: Any) -> None:
        self._coordinator.epoch += 1
        self._coordinator.state, self._coordinator.start = TransactionState.EMPTY, -1

    def begin_transaction(self) -> None:
        """The coordinator hears of it with the first record."""

    def produce(self, batch: pa.RecordBatch, *, topic: str) -> None:
        self._written += batch.num_rows

    def flush(self, timeout: float) -> int:
        if self._coordinator.state is TransactionState.EMPTY:
            self._coordinator.begin()
        return self._written

    def close(self) -> None:
        """Nothing is left of it."""


class Rig:
    def __init__(self, coordinator: Coordinator) -> None:
        client: Any = coordinator
        opened: Any = lambda _: Producer(coordinator)  # noqa: E731
        self.pool = ProducerPool(open_producer=opened, client=client, config={})
        self.writer: KafkaWriter = writer_of(
            Sink(topic="out", transactional_id_prefix="p"), pool=self.pool, subtask=0, parallelism=1, next_free=0
        )

    def begin(self, checkpoint_id: int) -> None:
        self.writer.notify_committed(checkpoint_id - 1)
        self.writer.begin(checkpoint_id)

    def pre_commit(self) -> KafkaCommittable:
        committable = self.writer.pre_commit((), group_id=None)
        assert committable is not None
        return committable


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    made = Coordinator()
    monkeypatch.setattr(exactly_once_writer.time, "monotonic", lambda: made.now)
    return made


@pytest.fixture
def rig(coordinator: Coordinator) -> Rig:
    return Rig(coordinator)


def test_a_noted_start_spares_the_question_behind_the_flush(rig: Rig, coordinator: Coordinator) -> None:
    rig.begin(1)
    rig.writer.note_start()
    rig.writer.write(RECORDS)
    asked = coordinator.asked
    coordinator.begin()
    rig.writer.note_start()
    rig.writer.note_start()
    rig.writer.write(RECORDS)
    assert rig.pre_commit().start_time_ms == 1_000_000
    assert coordinator.asked == asked + 1


def test_a_transaction_that_its_coordinator_does_not_know_yet_is_asked_about_again(
    rig: Rig, coordinator: Coordinator
) -> None:
    rig.begin(1)
    rig.writer.write(RECORDS)
    rig.writer.note_start()
    coordinator.now += 0.5
    assert rig.pre_commit().start_time_ms == 1_000_500


def test_a_process_that_was_frozen_asks_again(rig: Rig, coordinator: Coordinator) -> None:
    rig.begin(1)
    rig.writer.write(RECORDS)
    coordinator.begin()
    rig.writer.note_start()
    coordinator.now += 10
    coordinator.epoch += 1  # by the adopter of its work
    with pytest.raises(TransactionFenced):
        rig.pre_commit()


def test_a_start_is_that_of_its_transaction_only(rig: Rig, coordinator: Coordinator) -> None:
    rig.begin(1)
    rig.writer.write(RECORDS)
    coordinator.begin()
    rig.writer.note_start()
    assert rig.pre_commit().start_time_ms == 1_000_000
    coordinator.now += 0.1
    rig.begin(2)
    rig.writer.write(RECORDS)
    coordinator.begin()
    assert rig.pre_commit().start_time_ms == 1_000_100
