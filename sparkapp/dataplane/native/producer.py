"""The producer over the C extension, which produces Arrow columns without Python per record."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from sparkapp.clients.security.oauth_token import token_source
from sparkapp.dataplane.client_errors import ClientFailure, Deliveries
from sparkapp.dataplane.native import _kafka_arrow, librdkafka
from sparkapp.dataplane.output_batch import OutputBatch
from sparkapp.dataplane.producer import SLICE, CheckedProducer, Step
from sparkapp.dataplane.settings import producer_settings
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.errors.refusal import RefusedRecord
from sparkapp.model.partition import TopicPartition

librdkafka.load()

_STICKY = {"sticky.partitioning.linger.ms": "0"}
"""The extension's own partitioner keeps records without key together. It has librdkafka ask for each record."""
_COLUMNS = ("value", "key", "topic", "partition", "timestamp", "headers")
"""Columns in the order of the extension's slots."""


class NativeProducer(CheckedProducer):
    """:class:`sparkapp.dataplane.interface.BatchProducer` over the extension.

    :raises ConfigurationError: a key or value that librdkafka refuses.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        settings = {**_STICKY, **producer_settings(config)}
        super().__init__(settings)
        try:
            self._client = _kafka_arrow.Producer(settings, *token_source(settings))
        except _kafka_arrow.BadConfiguration as refusal:
            raise ConfigurationError(f"Kafka producer: {refusal}") from refusal

    def take_partitions(self) -> frozenset[TopicPartition]:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.take_partitions`."""
        return frozenset(itertools.starmap(TopicPartition, self._client.take_partitions()))

    def _end(self) -> None:
        self._client.close()

    def _step(self, step: Step, seconds: float) -> None:
        with _failures():
            getattr(self._client, step)(_millis(seconds))

    def _begin(self) -> None:
        with _failures():
            self._client.begin_transaction()

    def _produce(self, output: OutputBatch, topic: str) -> None:
        large = 0
        for index, (name, slot) in enumerate(zip(_COLUMNS, self._client.slots(), strict=True)):
            column = getattr(output, name)
            if column is not None:
                column._export_to_c(slot)
                large |= (column.type in (pa.large_binary(), pa.large_string())) << index
        row = 0
        while row < output.rows:
            try:
                row = self._client.produce(topic, output.rows, large, row, _millis(SLICE))
            except _kafka_arrow.Failure as failure:
                code, text, _ = failure.args
                record = self._client.refused()
                refused = None if record is None else RefusedRecord(*record)
                raise ClientFailure(code, text, record=refused) from None
            if row < output.rows:
                self._not_yet(f"producing to {topic}")

    def _send_offsets(
        self, offsets: Mapping[TopicPartition, int], group_id: str, metadata: str, seconds: float
    ) -> None:
        positions = [(*partition, offset) for partition, offset in offsets.items()]
        with _failures():
            self._client.send_offsets(positions, metadata, group_id, _millis(seconds))

    def _flush(self, seconds: float) -> int:
        return self._client.flush(_millis(seconds))

    def _take_throttling(self) -> int:
        return self._client.take_statistics()[1]

    def _take_deliveries(self) -> Deliveries:
        acknowledged, failed, code, text, record = self._client.take_deliveries()
        return Deliveries(acknowledged, failed, code, text, None if record is None else RefusedRecord(*record))

    def _take_sent(self) -> Mapping[int, int]:
        return self._client.take_sent()

    def _rejoin(self) -> None:
        self._client.rejoin(self._brokers)

    def _look_at_errors(self) -> None:
        for code, text, _ in self._client.take_errors():
            self._errors.add(code, text)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except _kafka_arrow.Failure as failure:
        code, text, is_retriable = failure.args
        raise ClientFailure(code, text, is_retriable=is_retriable) from None


def _millis(seconds: float) -> int:
    return max(0, int(seconds * 1000))
