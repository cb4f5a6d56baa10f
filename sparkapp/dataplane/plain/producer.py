"""The producer without the C extension: a call of confluent_kafka for each record."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Position

from sparkapp.clients.security.oauth_token import with_token_callback
from sparkapp.dataplane.client_errors import ClientFailure, Deliveries
from sparkapp.dataplane.output_batch import OutputBatch
from sparkapp.dataplane.producer import CheckedProducer, Step
from sparkapp.dataplane.settings import producer_settings
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.errors.refusal import KEY_KEPT, RefusedRecord
from sparkapp.model.partition import TopicPartition

_ROWS_A_POLL = 4096
"""Rows between two polls, so that delivery reports do not accumulate."""


class PlainProducer(CheckedProducer):
    """:class:`sparkapp.dataplane.interface.BatchProducer` over confluent_kafka.

    :raises ConfigurationError: a key or value that librdkafka refuses.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(producer_settings(config))
        settings = with_token_callback(producer_settings(config))
        settings["error_cb"] = lambda error: self._errors.add(error.code(), error.str())
        self._throttled = 0
        settings["throttle_cb"] = self._count_throttling
        settings["on_delivery"] = self._delivered
        self._client: Producer | None
        try:
            self._client = Producer(settings)
        except KafkaException as failure:
            raise ConfigurationError(f"Kafka producer: {failure.args[0].str()}") from failure
        self._group_metadata: dict[str, object] = {}
        self._acknowledged = 0
        self._failed = 0
        self._first_failure: tuple[int, str, RefusedRecord | None] = (0, "", None)
        self._partitions: set[TopicPartition] = set()

    def take_partitions(self) -> frozenset[TopicPartition]:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.take_partitions`."""
        taken, self._partitions = self._partitions, set()
        return frozenset(taken)

    def _end(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            # No queued record may be sent after the caller has closed the producer.
            client.purge(in_queue=True, in_flight=True, blocking=False)

    @property
    def _open(self) -> Producer:
        if self._client is None:
            msg = "the client is closed"
            raise RuntimeError(msg)
        return self._client

    def _count_throttling(self, event: Any) -> None:
        self._throttled += round(event.throttle_time * 1000)

    def _take_throttling(self) -> int:
        taken, self._throttled = self._throttled, 0
        return taken

    def _step(self, step: Step, seconds: float) -> None:
        with _failures():
            getattr(self._open, step)(seconds)

    def _begin(self) -> None:
        with _failures():
            self._open.begin_transaction()

    def _produce(self, output: OutputBatch, topic: str) -> None:
        client = self._open
        optional: dict[str, Any] = {}
        for row in range(output.rows):
            if output.partition is not None and output.partition[row].is_valid:
                optional["partition"] = output.partition[row].as_py()
            if output.timestamp is not None and output.timestamp[row].is_valid:
                optional["timestamp"] = output.timestamp[row].value
            if output.headers is not None and output.headers[row].is_valid:
                optional["headers"] = [
                    (header["key"] or "", header["value"])
                    for header in output.headers[row].as_py()
                    if header is not None
                ]
            name = topic
            if output.topic is not None and output.topic[row].is_valid:
                name = output.topic[row].as_py()
            self._produce_record(client, name, _bytes(output.key, row), _bytes(output.value, row), optional)
            optional.clear()
            if row % _ROWS_A_POLL == 0:
                self._poll(0)

    def _produce_record(
        self, client: Producer, topic: str, key: bytes | None, value: bytes | None, optional: Mapping[str, Any]
    ) -> None:
        try:
            while True:
                try:
                    with _failures():
                        client.produce(topic, value, key, **optional)
                except BufferError:  # the queue is full
                    self._poll(0.05)
                    self._errors.raise_final(f"producing to {topic}")
                else:
                    return
        except ClientFailure as failure:
            record = _record(topic, -1, key, value)
            self._fail(failure.code, failure.text, record)
            raise ClientFailure(failure.code, failure.text, record=record) from None

    def _send_offsets(
        self, offsets: Mapping[TopicPartition, int], group_id: str, metadata: str, seconds: float
    ) -> None:
        positions = [Position(*partition, offset, metadata) for partition, offset in offsets.items()]
        group = self._metadata_of(group_id)
        with _failures():
            self._open.send_offsets_to_transaction(positions, group, seconds)

    def _metadata_of(self, group_id: str) -> object:
        if group_id not in self._group_metadata:
            # confluent_kafka creates group metadata from a consumer only; this consumer never connects.
            consumer = Consumer({"group.id": group_id})
            self._group_metadata[group_id] = consumer.consumer_group_metadata()
            consumer.close()
        return self._group_metadata[group_id]

    def _flush(self, seconds: float) -> int:
        client = self._open
        try:
            return int(client.flush(seconds))
        except (KafkaException, SystemError) as failure:
            self._add_error(failure)
            return len(client)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if partition is not None:
            self._partitions.add(TopicPartition(message.topic(), partition))
        if error is None:
            self._acknowledged += 1
        else:
            place = message.topic() or "", message.partition() or 0
            # Which record of a batch is at fault the client does not tell.
            record = replace(_record(*place, message.key(), message.value()), is_certain=False)
            self._fail(error.code(), f"{place[0]} [{place[1]}]: {error.str()}", record)

    def _fail(self, code: int, text: str, record: RefusedRecord | None = None) -> None:
        if not self._failed or self._is_cause(code, record):
            self._first_failure = (code, text, record)
        self._failed += 1

    def _is_cause(self, code: int, record: RefusedRecord | None) -> bool:
        """Whether a later failure tells more than the first of the same kind: a larger record, or one without a key."""
        first, _, kept = self._first_failure
        if record is None or kept is None or code != first:
            return False
        return (
            record.size > kept.size if code == KafkaError.MSG_SIZE_TOO_LARGE else record.key_size < 0 <= kept.key_size
        )

    def _take_deliveries(self) -> Deliveries:
        deliveries = Deliveries(self._acknowledged, self._failed, *self._first_failure)
        self._acknowledged, self._failed, self._first_failure = 0, 0, (0, "", None)
        return deliveries

    def _take_sent(self) -> Mapping[int, int]:
        # confluent_kafka has no interceptors. So no producer is kept after a commit.
        return {}

    def _rejoin(self) -> None:
        """Impossible with confluent_kafka: the call times out, and the task is retried with a new client."""

    def _look_at_errors(self) -> None:
        self._poll(0)

    def _poll(self, seconds: float) -> None:
        """Serves callbacks; confluent_kafka raises a fatal error from here and does not pass it to ``error_cb``."""
        try:
            self._open.poll(seconds)
        except (KafkaException, SystemError) as failure:
            self._add_error(failure)

    def _add_error(self, failure: KafkaException | SystemError) -> None:
        # After the fatal error, further callbacks end in a SystemError, and their reports are not counted. The batch is
        # incomplete then, whatever the other reports say.
        error = _error_of(failure) or self._fatal_error()
        if error is None:
            raise failure
        self._errors.add(error.code(), error.str())
        self._fail(error.code(), error.str())

    def _fatal_error(self) -> KafkaError | None:
        """The fatal error of a transactional client; asked for when confluent_kafka has lost it."""
        try:
            self._open.begin_transaction()
        except KafkaException as refusal:
            error: KafkaError = refusal.args[0]
            return error if error.fatal() else None
        return None


def _error_of(failure: BaseException) -> KafkaError | None:
    cause = failure if isinstance(failure, KafkaException) else failure.__cause__
    return cause.args[0] if isinstance(cause, KafkaException) else None


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        raise ClientFailure(error.code(), error.str(), is_retriable=error.retriable()) from None


def _record(topic: str, partition: int, key: bytes | None, value: bytes | None) -> RefusedRecord:
    return RefusedRecord(
        topic,
        partition,
        None if key is None else key[:KEY_KEPT],
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        zlib.crc32(value or b""),
    )


def _bytes(column: pa.Array[Any] | None, row: int) -> bytes | None:
    if column is None:
        return None
    scalar = column[row]
    return scalar.as_buffer().to_pybytes() if scalar.is_valid else None
