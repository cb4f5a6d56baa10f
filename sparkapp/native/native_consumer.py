"""The consumer over the C extension: partition queues of librdkafka, gathered straight into Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.native import _kafka_arrow, librdkafka
from sparkapp.native.bounded_reader import BoundedReader, Gathered, Limits
from sparkapp.native.interface import SOURCE_SCHEMA
from sparkapp.native.kafka_errors import RETRIED, error_of
from sparkapp.native.lanes import Alignment
from sparkapp.native.settings import FEW_PARTITIONS, consumer_settings

librdkafka.load()

_WAIT_MILLIS = 100
"""A wait without the GIL; between two of them signals are served and errors looked at."""


class NativeConsumer(BoundedReader):
    """:class:`sparkapp.native.interface.BatchConsumer` over the extension.

    The prefetch of a partition is bounded when the client is opened, the number of partitions is known only when it is
    read from. Where they have more than doubled the client is therefore opened anew with smaller shares.

    :raises ConfigurationError: a key or value that librdkafka does not take.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__()
        self._config = dict(config)
        self._shares = FEW_PARTITIONS
        self._client = self._opened()
        self._numbers: dict[TopicPartition, int] = {}

    def _end(self) -> None:
        self._client.close()

    def _opened(self) -> _kafka_arrow.Consumer:
        try:
            return _kafka_arrow.Consumer(consumer_settings(self._config, partitions=self._shares))
        except _kafka_arrow.BadConfiguration as refusal:
            raise ConfigurationError(f"Kafka consumer: {refusal}") from refusal

    def _apply(self, change: Alignment) -> None:
        try:
            self._reassign(change)
        except _kafka_arrow.Failure as failure:
            code, text, _ = failure.args
            raise error_of(code, text, "assigning partitions") from None

    def _reassign(self, change: Alignment) -> None:
        add = list(change.add)
        if len(self._lanes) > 2 * self._shares:
            self._shares = len(self._lanes)
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
        """What is to be added, and the lanes that had been assigned to a former client."""
        starts = {split.partition: split for split in add}
        return [
            starts.get(partition) or KafkaPartitionSplit(partition, lane.position, lane.position)
            for partition, lane in self._lanes.items()
        ]

    def _begin(self, stops: dict[TopicPartition, int]) -> None:
        self._client.begin([(self._numbers[partition], stop) for partition, stop in stops.items()])

    def _gather(self, limits: Limits) -> Gathered:
        mask = sum(1 << index for index, name in enumerate(SOURCE_SCHEMA.names) if name in limits.columns)
        rows, addresses, moved, left = self._client.gather(mask, limits.max_rows, limits.max_bytes, _WAIT_MILLIS)
        batch = _batch(rows, addresses, limits.columns) if rows else None
        for code, text, number in self._client.take_errors():
            if number >= 0 and code not in RETRIED:
                partition = next(each for each, known in self._numbers.items() if known == number)
                raise error_of(code, text, f"reading {partition}")
            self._errors.note(code, text)
        return Gathered(batch, moved, left)

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
    """Imports the columns that were gathered, in the schema's order, and fills up with nulls."""
    gathered = iter(addresses)
    arrays = [
        pa.Array._import_from_c(next(gathered), field.type) if field.name in columns else _nulls(rows, field.type)
        for field in SOURCE_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SOURCE_SCHEMA)


@lru_cache(maxsize=64)
def _nulls(rows: int, kind: Any) -> Any:
    # Most batches are full, hence of one size: their missing columns share one array.
    return pa.nulls(rows, kind)
