"""What the engine has sent to a subtask in the two-phase pace: work, and barriers that come while it reads."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.dataplane.interface import BatchConsumer
from sparkapp.dataplane.settings import BATCH_ROWS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.spark.tasks.control_channel import SubtaskChannel
from sparkapp.spark.tasks.control_frames import Work, barrier_of, decode_work

_WAIT_MILLIS = 100
"""Longest wait for a record of an open checkpoint; a barrier ends it."""
_LINGER_SHARE = 0.25
"""Of the checkpoint interval, in which records gather to a batch of an open checkpoint."""
_EVERY = 1 << 62
"""Barrier of all checkpoints: the subtask is asked to end, or has lost the engine."""


class Inbox:
    """Made for a Spark task, and used by its thread. A thread of its own takes the engine's frames.

    :param wake: ends the wait of the read under way, or of the next.
    """

    def __init__(self, channel: SubtaskChannel, *, wake: Callable[[], None]) -> None:
        self._channel = channel
        self._wake = wake
        self._work: queue.SimpleQueue[Work | Exception | None] = queue.SimpleQueue()
        self._barrier = 0
        run_in_background(self._receive, name="orders")

    def next_work(self) -> Work | None:
        """Blocks until the next work; None asks the subtask to end.

        :raises SubtaskDisconnected: the connection ended, or the driver is silent; also the error of a wrong frame.
        """
        work = self._work.get()
        if isinstance(work, Exception):
            raise work
        return work

    def is_behind_barrier(self, checkpoint_id: int) -> bool:
        """Whether the barrier of the checkpoint has come."""
        return self._barrier >= checkpoint_id

    def _receive(self) -> None:
        try:
            while True:
                frame = self._channel.receive_body()
                barrier = barrier_of(frame)
                if barrier is None:
                    work = decode_work(frame)
                    self._work.put(work)
                    barrier = _EVERY if work is None else 0
                if barrier:
                    self._barrier = max(self._barrier, barrier)
                    self._wake()
        except Exception as error:
            # No barrier can come any more, so the read under way ends with what it has.
            self._work.put(error)
            self._barrier = _EVERY
            self._wake()


class CheckpointRead:
    """Reads a subtask's part of one checkpoint.

    Before the barrier of an open checkpoint it returns records as they come. Behind it, it returns what the splits
    still lack, and what the consumer has already fetched.

    :param interval: seconds between checkpoints.
    :ivar splits: as they were read, once :meth:`batches` is at its end.
    :ivar waited: seconds for records that had not come. A full batch came from a backlog, and is no wait.
    """

    def __init__(
        self, work: Work, *, inbox: Inbox, consumer: BatchConsumer, columns: frozenset[str], interval: float
    ) -> None:
        self.splits = work.splits
        self.waited = 0.0
        self._work = work
        self._inbox = inbox
        self._consumer = consumer
        self._columns = columns
        self._linger = min(_WAIT_MILLIS, int(interval * 1000 * _LINGER_SHARE))

    @property
    def awaits_barrier(self) -> bool:
        """Whether the checkpoint is open, and its barrier has not come."""
        return self._work.is_open and not self._inbox.is_behind_barrier(self._work.order.checkpoint_id)

    @property
    def ranges(self) -> tuple[KafkaPartitionSplit, ...]:
        """Source ranges of the transaction."""
        if not self._work.is_open:
            return self._work.order.ranges
        return tuple(split for split in self.splits if split.size)

    @property
    def stops(self) -> tuple[int, ...]:
        """Where an open checkpoint has ended, for each of its splits; empty for another."""
        return tuple(split.stop for split in self.splits) if self._work.is_open else ()

    def batches(self) -> Iterable[pa.RecordBatch]:
        """:raises KafkaSparkJobError: see :meth:`BatchConsumer.read`."""
        if not self._work.is_open:
            return self._consumer.read(self._work.splits, columns=self._columns)
        return self._open_batches()

    def _open_batches(self) -> Iterator[pa.RecordBatch]:
        consumer, splits = self._consumer, self._work.splits
        limits = dict(zip((split.partition for split in splits), self._work.limits, strict=True))
        consumer.follow(
            [KafkaPartitionSplit(split.partition, split.start, limits[split.partition]) for split in splits],
            columns=self._columns,
        )
        is_over = False
        while not is_over:
            is_over = self._inbox.is_behind_barrier(self._work.order.checkpoint_id)
            asked = time.monotonic()
            batch = consumer.next_batch(
                wait_millis=0 if is_over else _WAIT_MILLIS,
                linger_millis=0 if is_over else self._linger,
                max_rows=BATCH_ROWS,
            )
            if batch is None or batch.num_rows < BATCH_ROWS:
                self.waited += time.monotonic() - asked
            if batch is not None:
                yield batch
            is_over |= all(at >= limits[partition] for partition, at in consumer.followed.items())
        at = dict(consumer.followed)
        self.splits = tuple(
            KafkaPartitionSplit(split.partition, split.start, max(split.stop, at[split.partition])) for split in splits
        )
        rest = [KafkaPartitionSplit(split.partition, at[split.partition], split.stop) for split in self.splits]
        if any(split.size for split in rest):
            yield from consumer.read(rest, columns=self._columns)
