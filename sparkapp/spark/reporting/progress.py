"""What an attempt has done so far, updated once a checkpoint; the source of report and metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.clients.deadline import Clock
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import beginnings_of
from sparkapp.sink.ending.orphans import OpenNow
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot
from sparkapp.spark.reporting.load_meter import LoadMeter, Look
from sparkapp.spark.state.query_log import watermark_millis

Pending = Mapping[TopicPartition, int]
_TICK = 1e-3
"""Seconds; two completions are further apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One moment of an attempt; numbers count from the attempt's start, as in Flink, unless stated otherwise.

    :param checkpoint_id: the last completed checkpoint; before the first, the restored checkpoint.
    :param parallelism: of the last completed checkpoint; 0 before the attempt's first.
    :param checkpoint_seconds: duration; 0 before the attempt's first checkpoint, like time and size.
    :param checkpoint_time: Unix time in seconds.
    :param offsets: next offset of each partition after the last completed checkpoint.
    :param committed: offsets that this attempt has committed to the group.
    :param transactions: open at the last look; None if unknown.
    :param watermark_millis: event time of the last checkpoint; None without a watermark in the transform.
    """

    checkpoint_id: int = 0
    parallelism: int = 0
    checkpoint_seconds: float = 0.0
    checkpoint_time: float = 0.0
    checkpoint_bytes: int = 0
    checkpoints: int = 0
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    records_in: int = 0
    records_out: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    commits_succeeded: int = 0
    commits_failed: int = 0
    transactions: OpenNow | None = None
    watermark_millis: int | None = None
    late_rows: int = 0
    rebalances: int = 0


class Progress:
    """Updated by wiring, attempt and threads of the source; also the offset committer's callback. Thread-safe.

    :param update: takes fields of the report, :meth:`Reporter.update`.
    """

    def __init__(self, update: Callable[..., Any], *, clock: Clock = time.monotonic) -> None:
        self._update = update
        self._clock = clock
        self._begun = clock()
        """Of the time that the next checkpoint's rate is for: the last completion, or the begin of the attempt."""
        self._lock = threading.Lock()
        self._snapshot = Snapshot()
        self._restored = Counters()
        self._settled = 0
        """Transactions of earlier attempts that recovery has committed."""
        self._pending: Callable[[], Pending | None] = lambda: None
        self._look: Callable[[], Look | None] = lambda: None
        self._load: LoadMeter | None = None
        self._cluster_id = ""
        self.watermarks: Callable[[], WatermarkSnapshot | None] = lambda: None
        """Watermarks by partition, subtask and job; from any thread."""
        self.client_totals: Callable[[], Mapping[str, int]] = dict
        """Totals of the executors' Kafka clients (:mod:`sparkapp.dataplane.statistics`); from any thread."""

    @property
    def snapshot(self) -> Snapshot:
        """The present moment."""
        return self._snapshot

    @property
    def pending(self) -> Pending | None:
        """Records of each partition not yet read, at the last look at their ends; None before it (case S26)."""
        return self._pending()

    @property
    def lag(self) -> int | None:
        """Sum of :attr:`pending`; None if unknown."""
        pending = self.pending
        return None if pending is None else sum(pending.values())

    def measured(self) -> None:
        """The lag clock asked the brokers, or could not for too long."""
        with self._lock:
            self._update(lag_records=self.lag, **self._measured_load())

    def begins(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]) -> None:
        """The lag clock asked where the partitions begin.

        :param offsets: empty where that is not reported.
        """
        found = beginnings_of(offsets, topic_ids=topic_ids, cluster_id=self._cluster_id)
        with self._lock:
            self._update(beginnings=found)

    def measure_load(self, busy_millis: Callable[[], int], *, window_seconds: float, parallelism: int) -> None:
        """The engine is made: reports have the attempt's load from now on.

        :param busy_millis: of the engine. :param parallelism: before the attempt's first checkpoint.
        """
        self._load = LoadMeter(busy_millis, window_seconds=window_seconds, parallelism=parallelism, clock=self._clock)

    def _measured_load(self) -> dict[str, Any]:
        """The field of the report, where it has changed."""
        if self._load is None:
            return {}
        snapshot = self._snapshot
        load = self._load.measure(self._look(), snapshot.offsets, parallelism=snapshot.parallelism)
        return {} if load is None else {"load": load}

    def recovered(self, recovery: Recovery) -> None:
        """The transactions of previous attempts are settled."""
        self._restored, self._settled = recovery.document.counters, recovery.committed
        counters = self._restored
        with self._lock:
            self._snapshot = replace(
                self._snapshot, checkpoint_id=recovery.document.checkpoint_id,
                transactions_committed=recovery.committed, transactions_aborted=recovery.aborted,
            )  # fmt: skip
            self._update(
                totals_known=True, checkpoint_id=recovery.document.checkpoint_id,
                records_in=counters.records_in, records_out=counters.records_out,
                records_skipped=counters.records_skipped, records_dead_lettered=counters.records_dead_lettered,
                transactions_committed=counters.transactions_committed,
                transactions_aborted=counters.transactions_aborted,
            )  # fmt: skip

    def started(
        self,
        document: CheckpointDocument,
        pending: Callable[[], Pending | None],
        look: Callable[[], Look | None] = lambda: None,
    ) -> None:
        """The attempt's first document is written.

        :param pending: source of :attr:`pending`, called from any thread.
        :param look: the last look at the partitions' ends, likewise.
        """
        self._pending, self._look, self._cluster_id = pending, look, document.cluster_id
        with self._lock:
            self._snapshot = replace(self._snapshot, offsets=document.offsets)
            self._begun = self._clock()
            self._update(partitions=len(document.splits))

    def completed(self, completed: Completed, seconds: float, *, late_rows: int = 0) -> None:
        """A checkpoint is final and visible.

        :param seconds: its duration. The records of a checkpoint were written in a longer time.
        :param late_rows: of the attempt so far.
        """
        document = completed.document
        # Offsets of the transactions; other commits come by on_complete.
        ranges = [split for committable in document.committables for split in committable.ranges]
        if document.local is not None:
            ranges = list(document.splits)
        inside = {split.partition: split.stop for split in ranges if split.size} if document.evidence_group else {}
        with self._lock:
            previous, begun, self._begun = self._snapshot, self._begun, self._clock()
            elapsed = max(self._begun - begun, _TICK)
            known = previous.committed | inside
            self._snapshot = now = replace(
                previous,
                checkpoint_id=document.checkpoint_id, parallelism=document.parallelism, checkpoint_seconds=seconds,
                checkpoint_bytes=completed.bytes,
                checkpoint_time=datetime.fromisoformat(document.created_at).timestamp(),
                checkpoints=previous.checkpoints + 1,
                offsets=document.offsets,
                committed={part: offset for part, offset in known.items() if part in document.offsets},
                records_in=document.counters.records_in - self._restored.records_in,
                records_out=document.counters.records_out - self._restored.records_out,
                transactions_committed=self._settled
                + document.counters.transactions_committed
                - self._restored.transactions_committed,
                commits_succeeded=previous.commits_succeeded + bool(inside),
                watermark_millis=watermark_millis(document.engine),
                late_rows=late_rows,
            )  # fmt: skip
            self._update(
                checkpoint_id=document.checkpoint_id, checkpoint_time=document.created_at,
                checkpoint_duration_millis=round(seconds * 1000),
                checkpoint_bytes=completed.bytes,
                partitions=len(document.splits), lag_records=self.lag,
                records_in=document.counters.records_in, records_out=document.counters.records_out,
                records_skipped=document.counters.records_skipped,
                records_dead_lettered=document.counters.records_dead_lettered,
                records_per_second=round((now.records_out - previous.records_out) / elapsed),
                records_in_per_second=round((now.records_in - previous.records_in) / elapsed),
                transactions_committed=document.counters.transactions_committed,
                transactions_aborted=document.counters.transactions_aborted,
                commits_succeeded=now.commits_succeeded, commits_failed=now.commits_failed,
                **self._measured_load(),
            )  # fmt: skip

    def transactions(self, found: OpenNow | None) -> None:
        """The transactions that the orphan sweep found open; None if the coordinators did not answer."""
        oldest = None if found is None else found.oldest_start_millis
        with self._lock:
            previous, self._snapshot = self._snapshot.transactions, replace(self._snapshot, transactions=found)
            if found != previous:
                self._update(
                    transactions_known=found is not None, transactions_open=0 if found is None else found.count,
                    oldest_transaction_time="" if oldest is None else _time_of(oldest),
                    transactions_hanging=0 if found is None else found.hanging,
                )  # fmt: skip

    def rebalanced(self, partitions: int) -> None:
        """The group changed the partitions that the job reads, so the measured lag is out of date."""
        with self._lock:
            self._snapshot = replace(self._snapshot, rebalances=self._snapshot.rebalances + 1)
            self._update(partitions=partitions, lag_records=None)

    def on_complete(self, offsets: Mapping[TopicPartition, int], error: str) -> None:
        """A commit of the group's offsets outside transactions was answered.

        :param error: empty for success.
        """
        with self._lock:
            previous = self._snapshot
            self._snapshot = now = replace(
                previous, committed={**previous.committed, **offsets},
                commits_succeeded=previous.commits_succeeded + (not error),
                commits_failed=previous.commits_failed + bool(error),
            )  # fmt: skip
            self._update(commits_succeeded=now.commits_succeeded, commits_failed=now.commits_failed)


def _time_of(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
