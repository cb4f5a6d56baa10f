"""The consumer over the C extension, which gathers librdkafka's partition queues into Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from sparkapp.clients.errors import RETRIED, error_of
from sparkapp.clients.security.oauth_token import token_source
from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.dataplane.native import _kafka_arrow, librdkafka
from sparkapp.dataplane.partition_queue import AssignmentChange
from sparkapp.dataplane.reader import BoundedReader, Gathered, Limits
from sparkapp.dataplane.settings import FEW_PARTITIONS, consumer_settings
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.partition import TopicPartition

librdkafka.load()


class NativeConsumer(BoundedReader):
    """:class:`sparkapp.dataplane.interface.BatchConsumer` over the extension.

    A partition's prefetch is fixed when the client is opened, but a read may have any number of partitions. If they
    have more than doubled, the client is therefore reopened with a smaller prefetch for each.

    :raises ConfigurationError: a key or value that librdkafka refuses.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__()
        self._config = dict(config)
        self._prefetching_partitions = FEW_PARTITIONS
        self._client = self._opened()
        self._numbers: dict[TopicPartition, int] = {}

    def _end(self) -> None:
        self._client.close()

    def _opened(self) -> _kafka_arrow.Consumer:
        try:
            settings = consumer_settings(self._config, partitions=self._prefetching_partitions)
            return _kafka_arrow.Consumer(settings, *token_source(settings))
        except _kafka_arrow.BadConfiguration as refusal:
            raise ConfigurationError(f"Kafka consumer: {refusal}") from refusal

    def _apply(self, change: AssignmentChange) -> None:
        try:
            self._reassign(change)
        except _kafka_arrow.Failure as failure:
            code, text, _ = failure.args
            raise error_of(code, text, "assigning partitions") from None

    def _reassign(self, change: AssignmentChange) -> None:
        add = list(change.add)
        if len(self._queues) > 2 * self._prefetching_partitions:
            self._prefetching_partitions = len(self._queues)
            self._reopen()
            self._statistics.reopened()
            add = self._everything(add)
        elif change.drop:
            self._client.unassign([self._numbers.pop(partition) for partition in change.drop])
        if add:
            numbers = self._client.assign([(*split.partition, split.start) for split in add])
            self._numbers.update(zip((split.partition for split in add), numbers, strict=True))

    def _reopen(self) -> None:
        self._client.close()
        self._client = self._opened()
        self._numbers.clear()

    def _everything(self, add: list[KafkaPartitionSplit]) -> list[KafkaPartitionSplit]:
        """Splits for all queues: the added splits, and the positions of queues that the previous client had."""
        starts = {split.partition: split for split in add}
        return [
            starts.get(partition) or KafkaPartitionSplit(partition, queue.position, queue.position)
            for partition, queue in self._queues.items()
        ]

    def _begin(self, stops: dict[TopicPartition, int]) -> None:
        self._client.begin([(self._numbers[partition], stop) for partition, stop in stops.items()])

    def _gather(self, limits: Limits) -> Gathered:
        mask = sum(1 << index for index, name in enumerate(SOURCE_SCHEMA.names) if name in limits.columns)
        rows, addresses, moved, left = self._client.gather(
            mask, limits.max_rows, limits.max_bytes, limits.wait_millis, limits.linger_millis, limits.from_start
        )
        batch = _batch(rows, addresses, limits.columns) if rows else None
        for code, text, number in self._client.take_errors():
            if number >= 0 and code not in RETRIED:
                partition = next(each for each, known in self._numbers.items() if known == number)
                raise error_of(code, text, f"reading {partition}")
            self._errors.add(code, text)
        return Gathered(batch, moved, left)

    @property
    def behind(self) -> int:
        """See :attr:`sparkapp.dataplane.interface.BatchConsumer.behind`."""
        return self._client.behind()

    def wake(self) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.wake`."""
        self._client.wake()

    def _end_reads(self) -> None:
        self._client.interrupt()

    def _topic_error(self, topic: str, seconds: float) -> int:
        return self._client.topic_error(topic, int(seconds * 1000))

    def _take_statistics(self) -> tuple[str | None, int]:
        return self._client.take_statistics()

    def _rejoin(self) -> None:
        self._client.rejoin(self._config.get("bootstrap.servers", ""))

    def _positions(self) -> list[tuple[TopicPartition, int, int]]:
        return [
            (TopicPartition(topic, partition), position, stop)
            for topic, partition, position, stop in self._client.positions()
        ]


def _batch(rows: int, addresses: list[int], columns: frozenset[str]) -> pa.RecordBatch:
    """Imports the gathered columns in the schema's order; all others are null."""
    gathered = iter(addresses)
    arrays = [
        pa.Array._import_from_c(next(gathered), field.type) if field.name in columns else _nulls(rows, field.type)
        for field in SOURCE_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SOURCE_SCHEMA)


@lru_cache(maxsize=64)
def _nulls(rows: int, kind: Any) -> Any:
    # Most batches are full and have the same size, so their missing columns share an array.
    return pa.nulls(rows, kind)
