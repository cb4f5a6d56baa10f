"""The base of both producers: waits in slices, checks of delivery reports, and the meaning of failures."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from functools import partial
from typing import Literal

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.errors import (
    CAUSE,
    COORDINATOR_MOVES,
    MEANING,
    error_of,
    refused_by_broker,
    refused_by_client,
)
from sparkapp.dataplane.client_errors import ClientErrors, ClientFailure, Deliveries
from sparkapp.dataplane.interface import GivenUp, always
from sparkapp.dataplane.output_batch import OutputBatch
from sparkapp.dataplane.statistics import FLUSH_MILLIS, FLUSHES, PRODUCE_THROTTLE_MILLIS, PRODUCED_RECORDS, TOTALS
from sparkapp.model.errors import KafkaSparkJobError, KafkaUnreachable, PreCommitFailed, RecordRefused, TransactionError
from sparkapp.model.partition import TopicPartition

SLICE = 0.5
"""Seconds of a slice of a blocking call; signals and the client's errors are handled between slices."""
_BACKOFF = 0.05
_REGISTRATION_SECONDS = 1.0
"""For the partitions of a transaction's records to join it; longer than librdkafka's pause before it asks again."""

Step = Literal["init_transactions", "commit_transaction", "abort_transaction"]

_END_TXN, _TXN_OFFSET_COMMIT = 26, 28
"""Kafka's API keys of the requests that decide about a transaction and its offsets."""


class CheckedProducer(ABC):
    """Base of the producers, for use by one thread; see :class:`sparkapp.dataplane.interface.BatchProducer`.

    :param settings: the client's.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._brokers = settings.get("bootstrap.servers", "")
        self._largest = int(settings.get("message.max.bytes", 1_000_000))  # librdkafka's default
        self._refusal: KafkaSparkJobError | None = None
        """Of a record that the client did not take."""
        self._errors = ClientErrors()
        self._abandoned = False
        self._transactional = False
        self._unregistered = False
        """Records were produced in a transaction, and not all of them are known to have reached a broker."""
        self._offset_calls = 0

    def init_transactions(self, timeout: float, *, wanted: Callable[[], bool] = always) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.init_transactions`."""

        def step(seconds: float) -> None:
            if not wanted():
                raise GivenUp
            self._step("init_transactions", seconds)

        self._in_slices(step, timeout, "initialising the producer")

    def begin_transaction(self) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.begin_transaction`."""
        self._take_deliveries()
        self.take_partitions()
        self._take_sent()
        self._offset_calls = 0
        try:
            self._begin()
        except ClientFailure as failure:
            raise self._translated(failure, "beginning a transaction") from None
        self._transactional = True

    def produce(self, batch: pa.RecordBatch, *, topic: str) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.produce`.

        :raises TransformError: a column is missing or has an unsupported type.
        :raises PreCommitFailed: librdkafka refuses a record, for instance a large record; :meth:`flush` raises it, too.
        """
        self._unregistered = self._transactional
        try:
            self._produce(OutputBatch.of(batch), topic)
        except ClientFailure as failure:
            error = self._translated(failure, f"producing to {topic}")
            if failure.record is not None and failure.code in CAUSE:
                error = self._refusal = refused_by_client(
                    failure.code, f"producing to {topic}", failure.record, limit=self._largest, brokers=self._brokers
                )
            raise error from None

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], *, group_id: str, metadata: str, timeout: float
    ) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.send_offsets`."""
        self._offset_calls += 1
        call = partial(self._send_offsets, dict(offsets), group_id, metadata)
        doing = f"adding offsets of group {group_id}"
        # Not in slices: librdkafka gives the transaction up when this call times out, and no later call can resume it.
        # With slices, every coordinator slower than a slice would fail the task.
        self._in_slices(partial(self._watched, call, doing), timeout, doing, slice_seconds=None)

    def flush(self, timeout: float) -> int:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.flush`."""
        began = time.monotonic()
        deadline = began + timeout
        deliveries = Deliveries(0, 0)
        while left := self._flush(max(0.0, min(SLICE, deadline - time.monotonic()))):
            self._not_yet("flushing")
            deliveries = deliveries.then(self._take_deliveries())
            # Behind a record that failed, librdkafka holds the others of a transaction back until it is aborted.
            if deliveries.failed or time.monotonic() >= deadline:
                break
        self._unregistered = self._unregistered and left > 0
        deliveries = deliveries.then(self._take_deliveries())
        self._look_at_errors()
        self._errors.raise_fenced("flushing")
        self._raise_failed(deliveries, f"{deliveries.failed} records failed, up to {left} are left; the first failure")
        if left:
            # librdkafka's count includes events that are not served yet.
            doing = f"up to {left} records are not acknowledged after {timeout:g} s"
            raise PreCommitFailed(str(self._errors.explain(doing, PreCommitFailed)))
        self._errors.clear()
        TOTALS.add(
            {
                FLUSHES: 1,
                FLUSH_MILLIS: round((time.monotonic() - began) * 1000),
                PRODUCED_RECORDS: deliveries.acknowledged,
                PRODUCE_THROTTLE_MILLIS: self._take_throttling(),
            }
        )
        return deliveries.acknowledged

    def check(self) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.check`."""
        self._look_at_errors()  # serves the delivery reports, too
        deliveries = self._take_deliveries()
        self._raise_failed(deliveries, f"{deliveries.failed} records failed; the first failure")

    def commit_transaction(self, timeout: float) -> bool:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.commit_transaction`."""
        self._in_slices(partial(self._step, "commit_transaction"), timeout, "committing the transaction")
        sent = self._take_sent()
        return (sent.get(_END_TXN), sent.get(_TXN_OFFSET_COMMIT)) == (1, self._offset_calls)

    def abort_transaction(self, timeout: float) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.abort_transaction`."""
        self._in_slices(partial(self._step, "abort_transaction"), timeout, "aborting the transaction")
        self._take_deliveries()

    def _in_slices(
        self, call: Callable[[float], None], timeout: float, doing: str, *, slice_seconds: float | None = SLICE
    ) -> None:
        """Repeats a call until it succeeds, fails, or the deadline passes.

        :param slice_seconds: seconds of a slice; None for a call that cannot be resumed after its time-out.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.001, deadline - time.monotonic())
            try:
                call(left if slice_seconds is None else min(slice_seconds, left))
            except ClientFailure as failure:
                self._not_yet(doing)
                timed_out = failure.code == KafkaError._TIMED_OUT
                if (failure.is_retriable or (timed_out and slice_seconds)) and time.monotonic() < deadline:
                    if not timed_out:
                        time.sleep(_BACKOFF)  # the broker asks for a retry, and there is no event to wait for
                elif failure.is_retriable or timed_out or failure.code in COORDINATOR_MOVES:
                    text = f"{doing}: no success in {timeout:g} s: {failure.text}"
                    raise self._errors.explain(text, KafkaUnreachable) from None
                else:
                    raise self._translated(failure, doing) from None
            else:
                self._errors.clear()
                return

    def _not_yet(self, doing: str) -> None:
        """Called between two slices: raises an error that no retry resolves."""
        self._look_at_errors()
        self._errors.raise_final(doing)
        self._rejoin()

    def _watched(self, call: Callable[[float], None], doing: str, seconds: float) -> None:
        """Makes a call that may not return from librdkafka, whatever its time-out.

        librdkafka waits for the group's coordinator that it cached. If a metadata response lacks that broker, which
        restarted, librdkafka waits minutes for a closed connection. Then the client is abandoned, and the task is
        retried with a new client.
        """
        answer = run_in_background(partial(call, seconds), name="send-offsets")
        if not wait([answer], timeout=seconds + 2 * SLICE).done:
            self._abandoned = True
            raise KafkaUnreachable(f"{doing}: no answer from the client for {round(seconds, 1):g} s")
        answer.result()

    def _translated(self, failure: ClientFailure, doing: str) -> KafkaSparkJobError:
        self._look_at_errors()
        try:
            # An earlier error caused the fatal state, and the client reported it outside a call.
            self._errors.raise_fenced(doing)
        except KafkaSparkJobError as cause:
            return cause
        if failure.code in MEANING:
            return error_of(failure.code, failure.text, doing)
        try:
            # So may a record whose delivery failed before the call.
            deliveries = self._take_deliveries()
            self._raise_failed(deliveries, f"{doing}: {deliveries.failed} records failed; the first failure")
        except KafkaSparkJobError as cause:
            return cause
        return TransactionError(f"{doing}: {failure.text} ({KafkaError(failure.code).name()})")

    def _raise_failed(self, deliveries: Deliveries, doing: str) -> None:
        """Raises the meaning of the first failure, if a delivery failed."""
        if not deliveries.failed:
            return
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise RecordRefused(f"{doing}: {refusal.message}", remedy=refusal.remedy)
        code, text, record = deliveries.code, deliveries.text, deliveries.record
        if record is not None and code in CAUSE:
            raise refused_by_broker(code, text, doing, record, brokers=self._brokers)
        meaning = MEANING.get(code)
        error = error_of(code, text, doing)
        # A record that timed out or found no broker was not written; that is all its failure means.
        raise error if meaning not in (None, KafkaUnreachable) else PreCommitFailed(error.message)

    def close(self) -> None:
        """Closes the client, unless a call is stuck in it: closing it then would abort the process.

        So would closing it while a partition waits to join the transaction (ADR 31). Where that is possible, the
        records are sent first. Their transaction stays open, as without them.
        """
        if self._abandoned:
            return
        if self._unregistered:
            self._unregistered = False
            self._flush(_REGISTRATION_SECONDS)
        self._end()

    def _take_throttling(self) -> int:
        """Milliseconds for which brokers have throttled the client since the last call."""
        return 0

    @abstractmethod
    def take_partitions(self) -> frozenset[TopicPartition]:
        """See :meth:`sparkapp.dataplane.interface.BatchProducer.take_partitions`."""

    @abstractmethod
    def _end(self) -> None: ...

    @abstractmethod
    def _step(self, step: Step, seconds: float) -> None:
        """A slice of a transactional call. :raises ClientFailure: here and in the methods below."""

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _produce(self, output: OutputBatch, topic: str) -> None: ...

    @abstractmethod
    def _send_offsets(
        self, offsets: Mapping[TopicPartition, int], group_id: str, metadata: str, seconds: float
    ) -> None: ...

    @abstractmethod
    def _flush(self, seconds: float) -> int:
        """Waits for delivery reports; returns the number of missing reports."""

    @abstractmethod
    def _take_deliveries(self) -> Deliveries:
        """Counts since the last call."""

    @abstractmethod
    def _take_sent(self) -> Mapping[int, int]:
        """Requests of transactions that were sent since the last call, by API key; empty where they are not counted."""

    @abstractmethod
    def _rejoin(self) -> None:
        """Adds the bootstrap brokers again if the client knows no broker."""

    @abstractmethod
    def _look_at_errors(self) -> None:
        """Serves the client's callbacks, which add its errors."""
