"""What both producers share: waiting in slices, the check of every delivery report, and what failures mean."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkapp.model.errors import KafkaSparkJobError, KafkaUnreachable, PreCommitFailed, TransactionError
from sparkapp.model.partition import TopicPartition
from sparkapp.native.beside import beside
from sparkapp.native.broker_errors import BrokerErrors
from sparkapp.native.interface import GivenUp, always
from sparkapp.native.kafka_errors import COORDINATOR_MOVES, MEANING, error_of
from sparkapp.native.output_batch import OutputBatch
from sparkapp.native.statistics import FLUSH_MILLIS, FLUSHES, PRODUCE_THROTTLE_MILLIS, PRODUCED_RECORDS, TOTALS

SLICE = 0.5
"""Blocking calls are made in slices of so many seconds; between them signals are served and errors looked at."""
_BACKOFF = 0.05

Step = Literal["init_transactions", "commit_transaction", "abort_transaction"]


class ClientFailure(Exception):
    """An error of librdkafka's, before it is known what was being done."""

    def __init__(self, code: int, text: str, *, is_retriable: bool = False) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.is_retriable = is_retriable


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Delivery reports since they were last counted; the code and text are the first failure's."""

    acknowledged: int
    failed: int
    code: int = 0
    text: str = ""


class CheckedProducer(ABC):
    """Base of the producers; see :class:`sparkapp.native.interface.BatchProducer`. Not for use by several threads."""

    def __init__(self) -> None:
        self._errors = BrokerErrors()
        self._abandoned = False

    def init_transactions(self, timeout: float, *, wanted: Callable[[], bool] = always) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.init_transactions`."""

        def step(seconds: float) -> None:
            if not wanted():
                raise GivenUp
            self._step("init_transactions", seconds)

        self._in_slices(step, timeout, "initialising the producer")

    def begin_transaction(self) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.begin_transaction`."""
        self._take_deliveries()
        try:
            self._begin()
        except ClientFailure as failure:
            raise self._translated(failure, "beginning a transaction") from None

    def produce(self, batch: pa.RecordBatch, *, topic: str) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.produce`.

        :raises TransformError: a column is missing or has a type that cannot be meant.
        :raises PreCommitFailed: a record that no broker would take (too large); the same again in :meth:`flush`.
        """
        try:
            self._produce(OutputBatch.of(batch), topic)
        except ClientFailure as failure:
            raise self._translated(failure, f"producing to {topic}") from None

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], *, group_id: str, metadata: str, timeout: float
    ) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.send_offsets`."""
        call = partial(self._send_offsets, dict(offsets), group_id, metadata)
        doing = f"adding offsets of group {group_id}"
        # In one piece: librdkafka gives the transaction up when the time of this call is over, and no later call can
        # go on with it. A slice would make every coordinator that is slower than it a failed task.
        self._in_slices(partial(self._watched, call, doing), timeout, doing, slice_seconds=None)

    def flush(self, timeout: float) -> int:
        """See :meth:`sparkapp.native.interface.BatchProducer.flush`."""
        began = time.monotonic()
        deadline = began + timeout
        while left := self._flush(max(0.0, min(SLICE, deadline - time.monotonic()))):
            self._not_yet("flushing")
            if time.monotonic() >= deadline:
                break
        deliveries = self._take_deliveries()
        self._look_at_errors()
        self._errors.raise_fenced("flushing")
        _raise_failed(deliveries, f"{deliveries.failed} records failed, up to {left} are left; the first failure")
        if left:
            # librdkafka counts events that wait to be served among them.
            doing = f"up to {left} records are not acknowledged after {timeout:g} s"
            raise PreCommitFailed(str(self._errors.explain(doing, PreCommitFailed)))
        self._errors.forget()
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
        """See :meth:`sparkapp.native.interface.BatchProducer.check`."""
        self._look_at_errors()  # serves the reports, too
        deliveries = self._take_deliveries()
        _raise_failed(deliveries, f"{deliveries.failed} records failed; the first failure")

    def commit_transaction(self, timeout: float) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.commit_transaction`."""
        self._in_slices(partial(self._step, "commit_transaction"), timeout, "committing the transaction")
        self._take_deliveries()

    def abort_transaction(self, timeout: float) -> None:
        """See :meth:`sparkapp.native.interface.BatchProducer.abort_transaction`."""
        self._in_slices(partial(self._step, "abort_transaction"), timeout, "aborting the transaction")
        self._take_deliveries()

    def _in_slices(
        self, call: Callable[[float], None], timeout: float, doing: str, *, slice_seconds: float | None = SLICE
    ) -> None:
        """Makes a call until it succeeds, fails, or the deadline passes.

        :param slice_seconds: for one that goes on where it timed out; None for one whose time-out is its end.
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
                        time.sleep(_BACKOFF)  # the broker asked to come again, and there is nothing to wait for
                elif failure.is_retriable or timed_out or failure.code in COORDINATOR_MOVES:
                    text = f"{doing}: no success in {timeout:g} s: {failure.text}"
                    raise self._errors.explain(text, KafkaUnreachable) from None
                else:
                    raise self._translated(failure, doing) from None
            else:
                self._errors.forget()
                return

    def _not_yet(self, doing: str) -> None:
        """A slice is over and there is more to wait for: is there anything to wait for?"""
        self._look_at_errors()
        self._errors.raise_final(doing)
        self._rejoin()

    def _watched(self, call: Callable[[float], None], doing: str, seconds: float) -> None:
        """Makes a call that librdkafka may not come back from, whatever time it was given.

        It waits for the group's coordinator as it remembers it. Once a metadata answer has left that broker out (it was
        restarted), what it remembers is a connection that has ended and never comes up: minutes, until it forgets it.
        Then the client is left to itself, and the task is tried again with another one.
        """
        answer = beside(partial(call, seconds), name="send-offsets")
        if not wait([answer], timeout=seconds + 2 * SLICE).done:
            self._abandoned = True
            raise KafkaUnreachable(f"{doing}: the client gives no answer for {round(seconds, 1):g} s")
        answer.result()

    def _translated(self, failure: ClientFailure, doing: str) -> KafkaSparkJobError:
        self._look_at_errors()
        try:
            # A fatal state came from an earlier error, which the client has told on its own account.
            self._errors.raise_fenced(doing)
        except KafkaSparkJobError as cause:
            return cause
        if failure.code in MEANING:
            return error_of(failure.code, failure.text, doing)
        return TransactionError(f"{doing}: {failure.text} ({KafkaError(failure.code).name()})")

    def close(self) -> None:
        """Ends the client at once, unless a call is stuck in it: to end it under that would end the process."""
        if not self._abandoned:
            self._end()

    def _take_throttling(self) -> int:
        """Milliseconds for which brokers have throttled the client since the last call."""
        return 0

    @abstractmethod
    def _end(self) -> None: ...

    @abstractmethod
    def _step(self, step: Step, seconds: float) -> None:
        """One slice of a transactional call. :raises ClientFailure: in this and all that follow."""

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
        """Waits for delivery reports; returns how many are missing."""

    @abstractmethod
    def _take_deliveries(self) -> Deliveries:
        """Counts, which start anew."""

    @abstractmethod
    def _rejoin(self) -> None:
        """Begins with the configured brokers again, if the client knows none any more."""

    @abstractmethod
    def _look_at_errors(self) -> None:
        """Serves the client's callbacks, so that what it has to say is noted."""


def _raise_failed(deliveries: Deliveries, doing: str) -> None:
    """Raises what the first failure means, if there is one."""
    if deliveries.failed:
        meaning = MEANING.get(deliveries.code)
        error = error_of(deliveries.code, deliveries.text, doing)
        # Out of time or out of reach: for a record that only means that it is not there.
        raise error if meaning not in (None, KafkaUnreachable) else PreCommitFailed(error.message)
