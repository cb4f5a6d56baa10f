"""The bounded and the endless read of both consumers: the assignment, the end of a read, and its time-out."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkapp.clients.deadline import Deadline
from sparkapp.dataplane.client_errors import ClientErrors
from sparkapp.dataplane.interface import ALL_COLUMNS, GivenUp
from sparkapp.dataplane.partition_queue import AssignmentChange, PartitionQueue, assign, split_by_partition
from sparkapp.dataplane.settings import BATCH_BYTES, BATCH_ROWS, LINGER_MILLIS, WAIT_MILLIS
from sparkapp.dataplane.statistics import FetchStatistics
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import InvalidArgument, KafkaSparkJobError, ReadTimedOut
from sparkapp.model.errors.listed import listed
from sparkapp.model.partition import TopicPartition

_NOT_OURS = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""A reader neither joins its group nor commits to it, but librdkafka looks up the group's coordinator anyway."""
_ASK_AFTER = 2.0
"""Seconds without progress after which the brokers are asked for errors of the topics."""
_ANSWER_WITHIN = 1.0
_LEARN_SECONDS = 3.0
"""For all topics of a job, before its first read."""
_LOOK_AFTER = 10.0
"""Seconds between two looks of an endless read at its statistics, and at errors of the topics without progress."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a batch, and the requested columns.

    :param from_start: both times count from the begin of the wait, not from the last progress.
    """

    columns: frozenset[str]
    max_rows: int
    max_bytes: int
    linger_millis: int
    wait_millis: int = WAIT_MILLIS
    from_start: bool = False


@dataclass(frozen=True, slots=True)
class Gathered:
    """Result of one wait for records.

    :param batch: None without a row.
    :param moved: whether a partition advanced; a gap or the log's end counts, too.
    :param left: number of partitions that are not yet at their stop.
    """

    batch: pa.RecordBatch | None
    moved: bool
    left: int


class BoundedReader(ABC):
    """Base of the consumers, for use by one thread; see :class:`sparkapp.dataplane.interface.BatchConsumer`."""

    def __init__(self) -> None:
        self._errors = ClientErrors(ignored=_NOT_OURS)
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._reads = 0
        self._is_reading = False
        self._is_open = True
        self._has_failed = False
        self._is_interrupted = False
        self._statistics = FetchStatistics()
        self._followed: dict[TopicPartition, int] = {}
        self._columns = ALL_COLUMNS
        self._look_at = time.monotonic() + _LOOK_AFTER
        self._has_moved = False
        self._asked_last = ""
        self._stops: dict[TopicPartition, int] = {}

    def read(
        self,
        splits: Sequence[KafkaPartitionSplit],
        *,
        columns: frozenset[str] = ALL_COLUMNS,
        max_rows: int = BATCH_ROWS,
        max_bytes: int = BATCH_BYTES,
        linger_millis: int = LINGER_MILLIS,
        stall_timeout: float = 120.0,
    ) -> Iterator[pa.RecordBatch]:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.read`."""
        if unknown := columns - ALL_COLUMNS:
            msg = f"no such columns: {', '.join(sorted(unknown))}"
            raise InvalidArgument(msg)
        limits = Limits(columns, max(1, max_rows), max(1, max_bytes), max(0, linger_millis))
        return self._read(splits, limits, stall_timeout)

    def _read(
        self, splits: Sequence[KafkaPartitionSplit], limits: Limits, stall_timeout: float
    ) -> Iterator[pa.RecordBatch]:
        wanted = split_by_partition(splits)
        self._make_ready()
        self._reads += 1
        read = self._reads
        self._is_reading = True
        finished = False
        try:
            self._apply(assign(self._queues, wanted.values()))
            self._begin({partition: split.stop for partition, split in wanted.items()})
            for batch in self._batches(len(wanted), limits, stall_timeout):
                yield batch
                if read != self._reads:
                    msg = "another read of this consumer has begun"
                    raise RuntimeError(msg)
            for partition, split in wanted.items():
                self._queues[partition].position = split.stop
            finished = True
            self._statistics.add(*self._take_statistics())
        except (KafkaSparkJobError, MemoryError):
            self._has_failed = True
            raise
        finally:
            if read == self._reads:
                self._is_reading = False
                if not finished and not self._has_failed:
                    self._forget()  # abandoned: the position after the last row is unknown

    def _make_ready(self) -> None:
        if not self._is_open:
            msg = "the consumer is closed"
            raise RuntimeError(msg)
        if self._has_failed:
            # The client would still report errors of deleted topics, and its partitions may have stopped.
            self._queues.clear()
            self._errors = ClientErrors(ignored=_NOT_OURS)
            self._reopen()
            self._statistics.reopened()
            self._has_failed = False
        elif self._is_reading:  # the last read was abandoned, and its iterator is not closed yet
            self._forget()

    def _batches(self, left: int, limits: Limits, stall_timeout: float) -> Iterator[pa.RecordBatch]:
        """Gathers until every partition is at its stop; raises after a stall, or at an error that no retry resolves."""
        last_progress = time.monotonic()
        next_question = last_progress + _ASK_AFTER
        while left:
            if self._is_interrupted:
                raise GivenUp
            gathered = self._gather(limits)
            left = gathered.left
            if gathered.batch is not None:
                yield gathered.batch
            if gathered.moved:
                self._has_moved = True
                self._errors.clear()
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

    def follow(self, splits: Sequence[KafkaPartitionSplit], *, columns: frozenset[str] = ALL_COLUMNS) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.follow`."""
        wanted = split_by_partition(splits)
        self._make_ready()
        self._columns = columns
        self._apply(assign(self._queues, wanted.values()))
        self._begin({partition: split.stop for partition, split in wanted.items()})
        self._followed = {split.partition: split.start for split in splits}
        self._stops = {partition: split.stop for partition, split in wanted.items()}

    def next_batch(self, *, wait_millis: int, linger_millis: int, max_rows: int) -> pa.RecordBatch | None:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.next_batch`."""
        limits = Limits(self._columns, max_rows, BATCH_BYTES, linger_millis, wait_millis, from_start=True)
        if self._is_interrupted:
            raise GivenUp
        try:
            gathered = self._gather(limits)
            self._has_moved |= gathered.moved
            if gathered.moved:
                self._errors.clear()
                self._move()
            else:
                self._errors.raise_final(f"reading {self._unfinished()}")
            if wait_millis and time.monotonic() > self._look_at:
                self._look()
        except (KafkaSparkJobError, MemoryError):
            self._has_failed = True
            raise
        return gathered.batch

    @property
    def followed(self) -> Mapping[TopicPartition, int]:
        """See :attr:`sparkapp.dataplane.interface.BatchConsumer.followed`."""
        return self._followed

    def _move(self) -> None:
        """Notes the positions; a partition that is at its stop is not among those of the client."""
        self._followed |= self._stops | {partition: position for partition, position, _ in self._positions()}
        for partition in self._stops:
            self._queues[partition].position = self._followed[partition]

    def _look(self) -> None:
        has_moved, self._has_moved = self._has_moved, False
        self._look_at = time.monotonic() + _LOOK_AFTER
        self._statistics.add(*self._take_statistics())
        if not has_moved:
            self._rejoin()
            self._ask_about_topics()
            self._errors.raise_final(f"reading {self._unfinished()}")

    def _ask_about_topics(self) -> None:
        # librdkafka waits for ever, without an error, if the topic of an assigned partition may not be described.
        # A barrier waits meanwhile, so the next call asks about the topics that are left.
        until = time.monotonic() + _ANSWER_WITHIN
        topics = sorted({partition.topic for partition, _, _ in self._positions()})
        following = bisect_right(topics, self._asked_last)
        for topic in (*topics[following:], *topics[:following]):
            code = self._topic_error(topic, _ANSWER_WITHIN)
            if code:
                self._errors.add(code, f"topic {topic}: {KafkaError(code).str()}")
            self._asked_last = topic
            if self._is_interrupted or time.monotonic() >= until:
                return

    def learn(self, topics: Iterable[str]) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.learn`."""
        deadline = Deadline.after(_LEARN_SECONDS)
        for topic in topics:
            if deadline.expired or self._is_interrupted:
                return
            self._topic_error(topic, deadline.bound(_ANSWER_WITHIN))

    def interrupt(self) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.interrupt`."""
        self._is_interrupted = True
        self._end_reads()

    def close(self) -> None:
        """Closes the client; nothing is committed. A repeated call does nothing."""
        if self._is_open:
            self._is_open = False
            self._end()

    def _forget(self) -> None:
        if self._is_open:
            self._apply(AssignmentChange(drop=tuple(self._queues), add=()))
        self._queues.clear()

    def _unfinished(self) -> str:
        return listed(f"{partition} at {position} of {stop}" for partition, position, stop in self._positions())

    @abstractmethod
    def _take_statistics(self) -> tuple[str | None, int]:
        """The newest statistics as JSON (None if unchanged), and milliseconds of throttling since the last call."""

    @abstractmethod
    def _end(self) -> None:
        """Closes the client."""

    @abstractmethod
    def _reopen(self) -> None:
        """Replaces the failed client by a new client."""

    @abstractmethod
    def _apply(self, change: AssignmentChange) -> None:
        """Unassigns partitions, then assigns others and starts fetching."""

    @abstractmethod
    def _begin(self, stops: dict[TopicPartition, int]) -> None:
        """Starts a read of these assigned partitions."""

    @abstractmethod
    def _gather(self, limits: Limits) -> Gathered:
        """Waits a short time for the next batch.

        :raises KafkaAccessError: a partition failed with an error that librdkafka does not retry.
        """

    @abstractmethod
    def wake(self) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.wake`."""

    @abstractmethod
    def _end_reads(self) -> None:
        """Ends the wait of :meth:`_gather` and all later waits; from any thread."""

    @abstractmethod
    def _topic_error(self, topic: str, seconds: float) -> int:
        """The error code of a topic's metadata, or of the failed metadata request; 0 without an error."""

    @abstractmethod
    def _rejoin(self) -> None:
        """Adds the bootstrap brokers again if the client knows no broker."""

    @abstractmethod
    def _positions(self) -> list[tuple[TopicPartition, int, int]]:
        """Partition, next offset and stop of each partition below its stop."""
