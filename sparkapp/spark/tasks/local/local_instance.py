"""One instance of a subtask in the local pace: a producer, what it reads, and what it has committed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from sparkapp.dataplane.statistics import BUSY_MILLIS, TOTALS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.local_writer import LocalKafkaWriter
from sparkapp.spark.frames.batch_transform import BatchTransform
from sparkapp.spark.frames.record_policy import write_failed
from sparkapp.spark.tasks import worker_clients
from sparkapp.spark.tasks.record_decoder import RecordDecoder

WAIT_SECONDS = 0.1
"""Longest wait for a record, and so for an order of the engine."""
_MAX_ROWS = 16_384
"""Rows of a batch, so that a backlog's transaction ends in time."""
_PROGRESS_SECONDS = 1.0
"""Shortest time between two commits of offsets alone: all records were left out, or only markers were read."""
_RENEW_SECONDS = 3600.0
"""Age of the commits after which they are repeated: brokers forget offsets of a group that commits none."""
_COMMIT_SHARE = 1 / 30
"""Part of the time that commits may take while there is a backlog, whose records are late in any case."""
_BACKLOG_SECONDS = 5.0
"""Longest transaction of a backlog, however slow a commit is."""
_BUSY_SECONDS = 0.1
"""Work that is counted together: a turn may take microseconds."""
_TIMEOUT_SHARE = 0.1
"""The same as a part of the transaction's time-out."""


class LocalInstance:
    """Made by a subtask at the engine's order, and used by its thread.

    It has opened its producer when it is made, which fences the instance before it. It sends nothing more until the
    engine has it place or read partitions.

    :param number: of the instance, by the engine.
    :param decoder: of the subtask, which counts the records that it skips.
    :ivar committed: next offset of each partition, by commits that succeeded.
    :ivar totals: of its commits.
    :ivar is_over: it has committed, and must be replaced before further reads or writes (ADR 45).
    """

    def __init__(
        self,
        job: Job,
        *,
        number: int,
        transactional_id: str,
        subtask: int,
        transform: BatchTransform,
        decoder: RecordDecoder,
    ) -> None:
        self.number = number
        self.committed: dict[TopicPartition, int] = {}
        self.totals: Counter[str] = Counter()
        self.is_over = False
        self._job = job
        self._interval = job.spec.commit_interval_millis / 1000
        self._transform = transform
        self._decoder = decoder
        self._skipped = decoder.skipped
        self._left_out = 0
        """Records since the last commit for which the user's function raises, and which are skipped."""
        self._mark = ""
        self._stops: dict[TopicPartition, int] = {}
        self._due = self._committed_at = self._renewed_at = time.monotonic()
        self._backlog_due = self._due
        self._is_behind = False
        self._busy_seconds = 0.0
        self._transform.open()
        self._consumer = worker_clients.consumer_for(job)
        self._writer = LocalKafkaWriter(
            job.spec.sink, pool=worker_clients.producers_for(job), transactional_id=transactional_id,
            router=worker_clients.router_for(job, start=subtask),
        )  # fmt: skip
        self._writer.open()

    def place(self, starts: Mapping[TopicPartition, int], mark: str) -> None:
        """Commits where partitions start, before anything of them is read.

        :param mark: text stored with each offset from now on.
        """
        self._mark = mark
        self._commit(starts)

    def read(self, splits: Iterable[KafkaPartitionSplit], drop: Collection[TopicPartition]) -> None:
        """Reads more partitions. With ``drop`` it commits its records instead, and is over.

        :param splits: of placed partitions, with a stop or without an end.
        :param drop: partitions that are gone. Their records are committed without an offset: a later topic of the name
            has other offsets, and this consumer would begin at the old offsets.
        """
        if drop:
            for partition in drop:
                self._stops.pop(partition, None)
                self.committed.pop(partition, None)
            self.commit_rest()
            self.is_over = True
            return
        at = dict(self._consumer.followed)
        for split in splits:
            self._stops[split.partition] = split.stop
            at[split.partition] = split.start
        self._consumer.follow(
            [KafkaPartitionSplit(partition, at[partition], stop) for partition, stop in self._stops.items()],
            columns=self._transform.source_columns | self._decoder.source_columns,
        )

    @property
    def reads(self) -> bool:
        """Whether there may be records to read."""
        at = self._consumer.followed
        return not self.is_over and any(at.get(partition, 0) < stop for partition, stop in self._stops.items())

    @property
    def uncommitted(self) -> tuple[KafkaPartitionSplit, ...]:
        """What was read and is not committed."""
        return tuple(
            KafkaPartitionSplit(partition, self.committed[partition], offset)
            for partition, offset in self._moved().items()
        )

    def turn(self) -> None:
        """Reads until the interval is over or a batch is full, writes, and commits if it is time.

        :raises GivenUp: the consumer was interrupted.
        :raises KafkaSparkJobError: and errors of the user's function. The instance must be aborted.
        """
        began, waited = time.monotonic(), 0.0
        if self.reads:
            left = self._interval if self._is_behind else max(0.0, self._due - began)
            batch = self._consumer.next_batch(
                wait_millis=int((WAIT_SECONDS if self._writer.is_empty else left) * 1000),
                linger_millis=int(left * 1000),
                max_rows=_MAX_ROWS,
            )
            if batch is None or batch.num_rows < _MAX_ROWS:
                waited = time.monotonic() - began
            if batch is not None:
                self._write(batch)
            self._is_behind = self._consumer.behind > _MAX_ROWS
        self._commit_if_due()
        self._count_busy(time.monotonic() - began - waited)

    def _count_busy(self, seconds: float) -> None:
        self._busy_seconds += seconds
        if self._busy_seconds >= _BUSY_SECONDS:
            TOTALS.add({BUSY_MILLIS: round(self._busy_seconds * 1000)})
            self._busy_seconds = 0.0

    def commit_rest(self) -> None:
        """Commits what was read so far; called before an orderly end."""
        if not self.is_over and (self._moved() or not self._writer.is_empty):
            self._commit({})

    def abort(self) -> None:
        """Ends the instance after an error."""
        self._writer.abort()
        self.close()

    def close(self) -> None:
        """Closes its clients. What it has not committed is aborted."""
        self._writer.close()
        worker_clients.drop_consumer(self._job)

    def _write(self, batch: pa.RecordBatch) -> None:
        for result in self._transform.map(self._decoder.decode([batch])):
            if result.num_rows:
                self._writer.write(result)
        self._left_out += write_failed(self._job, self._writer)

    def _commit_if_due(self) -> None:
        now = time.monotonic()
        if now < (max(self._due, self._backlog_due) if self._is_behind else self._due):
            return
        has_moved = now >= self._committed_at + _PROGRESS_SECONDS and bool(self._moved())
        renews = now >= self._renewed_at + _RENEW_SECONDS and bool(self._stops)
        if self._writer.is_empty and not (has_moved or renews):
            return
        self._commit(self.committed if renews else {})
        if renews:
            self._renewed_at = now
        ended = time.monotonic()
        self._due = max(self._due + self._interval, now)
        expires = self._job.spec.sink.transaction_timeout_millis / 1000
        self._backlog_due = ended + min((ended - now) / _COMMIT_SHARE, _BACKLOG_SECONDS, expires * _TIMEOUT_SHARE)

    def _moved(self) -> dict[TopicPartition, int]:
        """The partitions that were read beyond their last commit, and how far."""
        at = self._consumer.followed
        return {each: at[each] for each in self._stops if at.get(each, 0) > self.committed[each]}

    def _commit(self, others: Mapping[TopicPartition, int]) -> None:
        """Commits what was written, behind the records that were read for it.

        :param others: offsets of partitions that were not read since.
        """
        offsets = {**others, **self._moved()}
        made = {
            "records_out": self._writer.records, "dead_lettered": self._writer.dead_letters,
            "skipped": self._decoder.skipped - self._skipped + self._left_out, "transactions": 1,
        }  # fmt: skip
        may_go_on = self._writer.commit(offsets, group_id=self._job.spec.source.group_id, metadata=self._mark)
        self.is_over = not may_go_on
        self.totals.update(made)
        self.committed |= offsets
        self._skipped, self._left_out = self._decoder.skipped, 0
        self._committed_at = time.monotonic()
