"""The writer without transactions: what becomes of the records that its producer has yet to send."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.model.job.sections.sink import Sink
from sparkapp.sink.delivery import writer_of
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.writer import KafkaWriter
from tests.support.fakes.closed_logs import NO_TOPICS


class Producer:
    """Sends what it has at a flush. What it has at its close is lost."""

    def __init__(self, sent: list[int]) -> None:
        self._sent = sent
        self._queued: list[int] = []

    def produce(self, batch: pa.RecordBatch, *, topic: str) -> None:
        self._queued += batch.column("value").to_pylist()

    def check(self) -> None:
        """No record was refused."""

    def flush(self, _: float) -> int:
        flushed, self._queued = self._queued, []
        self._sent += flushed
        return len(flushed)

    def close(self) -> None:
        self._queued.clear()


class Router:
    """Asks the brokers for the partitions of a topic."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def route(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._fails:
            raise KafkaUnreachable("asking the brokers for the sink's topics")
        return batch


class Task:
    """A worker process, whose writers share its producers."""

    def __init__(self, guarantee: DeliveryGuarantee) -> None:
        self.sent: list[int] = []
        self._sink = Sink(topic="out", transactional_id_prefix="p", delivery_guarantee=guarantee)
        client: Any = None
        self.pool = ProducerPool(open_producer=lambda _: self._opened(), client=client, config={}, scope=NO_TOPICS)

    def _opened(self) -> Any:
        return Producer(self.sent)

    def write(self, checkpoint_id: int, value: int, *, fails: bool = False) -> None:
        router: Any = Router(fails=fails)
        writer: KafkaWriter = writer_of(self._sink, pool=self.pool, subtask=0, next_free=0, router=router)
        writer.begin(checkpoint_id)
        writer.write(pa.RecordBatch.from_pydict({"value": [value]}))
        writer.pre_commit((), group_id=None)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.NONE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_failed_write_takes_no_record_of_an_earlier_checkpoint_along(guarantee: DeliveryGuarantee) -> None:
    """With None the checkpoint is complete before its records are sent, so nobody would write them again."""
    task = Task(guarantee)
    task.write(1, 10)
    with pytest.raises(KafkaUnreachable):
        task.write(2, 20, fails=True)
    task.write(2, 20)
    task.pool.flush_plain(1)
    assert task.sent == [10, 20]
