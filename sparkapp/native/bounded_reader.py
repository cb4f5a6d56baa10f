"""The bounded read that both consumers share: what is assigned, when a read ends, and when it is given up."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkapp.model.errors import InvalidArgument, KafkaSparkJobError, ReadTimedOut
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.native.broker_errors import BrokerErrors
from sparkapp.native.interface import ALL_COLUMNS
from sparkapp.native.lanes import Alignment, Lane, align, one_split_a_partition
from sparkapp.native.statistics import FetchStatistics

_SHOWN = 5
_NOT_OURS = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""A reader neither joins its group nor commits to it; librdkafka looks for the group's coordinator all the same."""
_ASK_AFTER = 2.0
"""Seconds without progress after which the brokers are asked what they think of the topics."""
_ANSWER_WITHIN = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch may hold, and which columns are asked for."""

    columns: frozenset[str]
    max_rows: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one wait for records came to.

    :param batch: None without a row.
    :param moved: whether a partition went on; a gap or the log's end counts, too.
    :param left: partitions that are not yet at their stop.
    """

    batch: pa.RecordBatch | None
    moved: bool
    left: int


class BoundedReader(ABC):
    """Base of the consumers; see :class:`sparkapp.native.interface.BatchConsumer`. Not for use by several threads."""

    def __init__(self) -> None:
        self._errors = BrokerErrors(ignored=_NOT_OURS)
        self._lanes: dict[TopicPartition, Lane] = {}
        self._reads = 0
        self._is_reading = False
        self._is_open = True
        self._has_failed = False
        self._statistics = FetchStatistics()

    def read(
        self,
        splits: Sequence[KafkaPartitionSplit],
        *,
        columns: frozenset[str] = ALL_COLUMNS,
        max_rows: int = 65_536,
        max_bytes: int = 16 << 20,
        stall_timeout: float = 120.0,
    ) -> Iterator[pa.RecordBatch]:
        """See :meth:`sparkapp.native.interface.BatchConsumer.read`."""
        if unknown := columns - ALL_COLUMNS:
            msg = f"no such columns: {', '.join(sorted(unknown))}"
            raise InvalidArgument(msg)
        return self._read(splits, Limits(columns, max(1, max_rows), max(1, max_bytes)), stall_timeout)

    def _read(
        self, splits: Sequence[KafkaPartitionSplit], limits: Limits, stall_timeout: float
    ) -> Iterator[pa.RecordBatch]:
        wanted = one_split_a_partition(splits)
        self._make_ready()
        self._reads += 1
        read = self._reads
        self._is_reading = True
        finished = False
        try:
            self._apply(align(self._lanes, wanted.values()))
            self._begin({partition: split.stop for partition, split in wanted.items()})
            for batch in self._batches(len(wanted), limits, stall_timeout):
                yield batch
                if read != self._reads:
                    msg = "another read of this consumer has begun"
                    raise RuntimeError(msg)
            for partition, split in wanted.items():
                self._lanes[partition].position = split.stop
            finished = True
            self._statistics.note(*self._take_statistics())
        except (KafkaSparkJobError, MemoryError):
            self._has_failed = True
            raise
        finally:
            if read == self._reads:
                self._is_reading = False
                if not finished and not self._has_failed:
                    self._forget()  # abandoned, with rows taken that nobody has counted

    def _make_ready(self) -> None:
        if not self._is_open:
            msg = "the consumer is closed"
            raise RuntimeError(msg)
        if self._has_failed:
            # A client goes on to complain about topics that are gone, and its partitions may have stopped.
            self._lanes.clear()
            self._errors = BrokerErrors(ignored=_NOT_OURS)
            self._reopen()
            self._statistics.reopened()
            self._has_failed = False
        elif self._is_reading:  # the last read was abandoned, and nobody has closed it yet
            self._forget()

    def _batches(self, left: int, limits: Limits, stall_timeout: float) -> Iterator[pa.RecordBatch]:
        """Gathers until nothing is left; gives up where nothing moves for too long, or what waiting cannot heal."""
        last_progress = time.monotonic()
        next_question = last_progress + _ASK_AFTER
        while left:
            gathered = self._gather(limits)
            left = gathered.left
            if gathered.batch is not None:
                yield gathered.batch
            if gathered.moved:
                self._errors.forget()
                last_progress = time.monotonic()
                next_question = last_progress + _ASK_AFTER
            elif time.monotonic() - last_progress > stall_timeout:
                doing = f"no progress for {stall_timeout:g} s reading {self._unfinished()}"
                raise self._errors.explain(doing, ReadTimedOut)
            else:
                if time.monotonic() > next_question:
                    self._rejoin()
                    self._ask_about_topics()
                    next_question = time.monotonic() + _ASK_AFTER
                self._errors.raise_final(f"reading {self._unfinished()}")

    def _ask_about_topics(self) -> None:
        # librdkafka says nothing of an assigned partition whose topic may not be described, and waits for ever.
        for topic in sorted({partition.topic for partition, _, _ in self._positions()}):
            code = self._topic_error(topic, _ANSWER_WITHIN)
            if code:
                self._errors.note(code, f"topic {topic}: {KafkaError(code).str()}")

    def close(self) -> None:
        """Ends the client; nothing is committed. Repeating it does nothing."""
        if self._is_open:
            self._is_open = False
            self._end()

    def _forget(self) -> None:
        if self._is_open:
            self._apply(Alignment(drop=tuple(self._lanes), add=()))
        self._lanes.clear()

    def _unfinished(self) -> str:
        where = [f"{partition} at {position} of {stop}" for partition, position, stop in self._positions()]
        shown = ", ".join(where[:_SHOWN])
        return shown if len(where) <= _SHOWN else f"{shown} and {len(where) - _SHOWN} more partitions"

    @abstractmethod
    def _take_statistics(self) -> tuple[str | None, int]:
        """The client's newest statistics as JSON, None without new ones, and milliseconds of throttling since then."""

    @abstractmethod
    def _end(self) -> None:
        """Ends the client."""

    @abstractmethod
    def _reopen(self) -> None:
        """Opens another client in place of one that failed."""

    @abstractmethod
    def _apply(self, change: Alignment) -> None:
        """Gives partitions back, then starts fetching others."""

    @abstractmethod
    def _begin(self, stops: dict[TopicPartition, int]) -> None:
        """A read of these assigned partitions begins."""

    @abstractmethod
    def _gather(self, limits: Limits) -> Gathered:
        """Waits a moment for the next batch.

        :raises KafkaAccessError: a partition's error that librdkafka does not retry.
        """

    @abstractmethod
    def _topic_error(self, topic: str, seconds: float) -> int:
        """The code of what a broker answers when it is asked about a topic, or of not being answered; 0: no error."""

    @abstractmethod
    def _rejoin(self) -> None:
        """Begins with the configured brokers again, if the client knows none any more."""

    @abstractmethod
    def _positions(self) -> list[tuple[TopicPartition, int, int]]:
        """Partition, next offset and stop of what the read is not through with."""
