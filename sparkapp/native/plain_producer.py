"""The producer's fallback without the C extension: one confluent_kafka call a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Position

from sparkapp.model.errors import KafkaSparkJobError, KafkaUnreachable, PreCommitFailed, TransactionError
from sparkapp.model.partition import TopicPartition
from sparkapp.native.broker_errors import BrokerErrors
from sparkapp.native.kafka_errors import MEANING, error_for
from sparkapp.native.output_batch import OutputBatch
from sparkapp.native.settings import producer_settings

_SLICE = 0.5
"""Blocking calls are made in slices of so many seconds, so that refused credentials surface at once."""


class PlainProducer:
    """:class:`sparkapp.native.interface.BatchProducer` over confluent_kafka; about a third of the extension's speed."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._errors = BrokerErrors()
        settings: dict[str, object] = {**producer_settings(config)}
        settings["error_cb"] = lambda error: self._errors.note(error.code(), error.str())
        settings["on_delivery"] = self._delivered
        self._client: Producer | None = Producer(settings)
        self._group_metadata: dict[str, object] = {}
        self._acknowledged = 0
        self._failed = 0
        self._first_failure: KafkaError | None = None

    def init_transactions(self, timeout: float) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.init_transactions`."""
        self._in_slices(self._open.init_transactions, timeout, "initialising the producer")

    def begin_transaction(self) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.begin_transaction`."""
        self._take_counts()
        try:
            self._open.begin_transaction()
        except KafkaException as failure:
            raise self._translated(failure, "beginning a transaction") from failure

    def produce(self, batch: pa.RecordBatch, *, topic: str) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.produce`."""
        output = OutputBatch.of(batch)
        client = self._open
        optional: dict[str, Any] = {}
        for row in range(output.rows):
            if output.partition is not None and output.partition[row].is_valid:
                optional["partition"] = output.partition[row].as_py()
            if output.timestamp is not None and output.timestamp[row].is_valid:
                optional["timestamp"] = output.timestamp[row].value
            if output.headers is not None and output.headers[row].is_valid:
                optional["headers"] = [(one["key"], one["value"]) for one in output.headers[row].as_py()]
            name = topic
            if output.topic is not None and output.topic[row].is_valid:
                name = output.topic[row].as_py()
            self._produce_one(client, name, _bytes(output.key, row), _bytes(output.value, row), optional)
            optional.clear()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], *, group_id: str, metadata: str, timeout: float
    ) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.send_offsets`."""
        positions = [Position(*partition, offset, metadata) for partition, offset in offsets.items()]
        group = self._metadata_of(group_id)
        doing = f"adding offsets of group {group_id}"
        self._in_slices(lambda some: self._open.send_offsets_to_transaction(positions, group, some), timeout, doing)

    def flush(self, timeout: float) -> int:
        """See :meth:`sparkapp.native.interface.BatchProducer.flush`."""
        deadline = time.monotonic() + timeout
        while (left := self._open.flush(_SLICE)) and time.monotonic() < deadline and not self._failed:
            self._errors.raise_final("flushing")
        acknowledged, failed, first = self._take_counts()
        self._errors.raise_final("flushing")
        if first is not None:
            raise self._delivery_failure(first, failed, left)
        if left:
            doing = f"{left} records are not acknowledged after {timeout:g} s"
            raise PreCommitFailed(str(self._errors.explain(doing, PreCommitFailed)))
        return acknowledged

    def commit_transaction(self, timeout: float) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.commit_transaction`."""
        self._in_slices(self._open.commit_transaction, timeout, "committing the transaction")
        self._take_counts()

    def abort_transaction(self, timeout: float) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.abort_transaction`."""
        self._in_slices(self._open.abort_transaction, timeout, "aborting the transaction")
        self._take_counts()

    def close(self) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.close`."""
        client, self._client = self._client, None
        if client is not None:
            # Nothing that is still queued may go out after the caller has given the producer up.
            client.purge(in_queue=True, in_flight=True, blocking=False)

    @property
    def _open(self) -> Producer:
        if self._client is None:
            msg = "the producer is closed"
            raise TransactionError(msg)
        return self._client

    def _produce_one(
        self, client: Producer, topic: str, key: bytes | None, value: bytes | None, optional: Mapping[str, Any]
    ) -> None:
        while True:
            try:
                client.produce(topic, value, key, **optional)
            except BufferError:
                client.poll(0.05)
                self._errors.raise_final("producing")
            except KafkaException as failure:
                self._failed += 1
                self._first_failure = self._first_failure or failure.args[0]
                raise self._translated(failure, f"producing to {topic}") from failure
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
            return
        self._failed += 1
        self._first_failure = self._first_failure or error

    def _take_counts(self) -> tuple[int, int, KafkaError | None]:
        counts = (self._acknowledged, self._failed, self._first_failure)
        self._acknowledged, self._failed, self._first_failure = 0, 0, None
        return counts

    def _metadata_of(self, group_id: str) -> object:
        if group_id not in self._group_metadata:
            # confluent_kafka makes group metadata from a consumer only; this one never connects.
            consumer = Consumer({"group.id": group_id})
            self._group_metadata[group_id] = consumer.consumer_group_metadata()
            consumer.close()
        return self._group_metadata[group_id]

    def _in_slices(self, call: Callable[[float], object], timeout: float, doing: str) -> None:
        """Makes a call that may be repeated after a time-out, until it succeeds, fails or the deadline passes."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                call(max(0.001, min(_SLICE, deadline - time.monotonic())))
            except KafkaException as failure:
                self._errors.raise_final(doing)
                late = time.monotonic() >= deadline
                if failure.args[0].code() == KafkaError._TIMED_OUT and late:
                    text = f"{doing}: no answer in {timeout:g} s"
                    raise self._errors.explain(text, KafkaUnreachable) from failure
                if not failure.args[0].retriable() or late:
                    raise self._translated(failure, doing) from failure
            else:
                return

    def _translated(self, failure: KafkaException, doing: str) -> KafkaSparkJobError:
        error: KafkaError = failure.args[0]
        if error.code() in (KafkaError._FATAL, KafkaError._STATE):
            # The state came from an earlier, fatal error, of which the client told on its own account.
            self._open.poll(0)
            self._errors.raise_final(doing)
        if error.code() in MEANING:
            return error_for(error, doing)
        return TransactionError(f"{doing}: {error.str()} ({error.name()})")

    def _delivery_failure(self, error: KafkaError, failed: int, left: int) -> KafkaSparkJobError:
        text = f"{failed} records failed and {left} are left, the first failure"
        translated = error_for(error, text)
        return translated if not isinstance(translated, KafkaUnreachable) else PreCommitFailed(translated.message)


def _bytes(column: pa.Array[Any] | None, row: int) -> bytes | None:
    if column is None:
        return None
    scalar = column[row]
    return scalar.as_buffer().to_pybytes() if scalar.is_valid else None
