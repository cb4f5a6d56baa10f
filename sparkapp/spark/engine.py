"""The micro-batch engine: one Spark batch is one checkpoint, and the coordinator's process decides each of them."""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sparkapp.checkpoint.coordinator import CheckpointCoordinator, Completed, PreCommitted
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import (
    ConfigurationError,
    KafkaSparkJobError,
    OffsetsWentBackwards,
    TransactionError,
    TransformFailed,
)
from sparkapp.model.job import Job
from sparkapp.model.job_codec import encode_job
from sparkapp.model.protocol import ProtocolStep
from sparkapp.model.semantic import OffsetCommitMode, Semantic
from sparkapp.model.split import Assignment, KafkaPartitionSplit, assign, cut_at
from sparkapp.native.interface import ALL_COLUMNS
from sparkapp.source.enumerator import KafkaSourceEnumerator
from sparkapp.spark import lineage, query_log
from sparkapp.spark.arrow_batches import RecordSizes, limit_stream, limited
from sparkapp.spark.client_totals import merge, summed
from sparkapp.spark.data_source import FORMAT, KafkaSparkDataSource
from sparkapp.spark.delivery import flush_workers, require_delivered
from sparkapp.spark.end_of_stream import stops_found
from sparkapp.spark.failures import original_error, while_reading
from sparkapp.spark.liveness import MAX_STEP_SECONDS, PLAN_SECONDS, StreamLiveness, step_seconds
from sparkapp.spark.observed import keeps_state, late_rows, next_watermark
from sparkapp.spark.planner import PlannerServer, SubtaskSplits
from sparkapp.spark.record_policy import require_aligned, skipped_records
from sparkapp.spark.records import decode_records, encode_records
from sparkapp.spark.session import has_executors
from sparkapp.spark.transform import Function, apply_transform, refused_by_streaming
from sparkapp.spark.write_task import RESULT_DDL, WriteOrder, WriteResult, decode_result, write_partition

LOG = logging.getLogger(__name__)

_IDLE_PROBE_SECONDS = 0.25
"""How often the brokers are asked for news while a checkpoint is due and nothing was new."""

_SHOWN = 20
"""Subtasks, and partitions of each, in one line of the log."""

_LOOK_SECONDS = 10.0
"""How often executors are counted."""

_IDLE_SECONDS = 10.0
"""Without a checkpoint for so long a job is idle: what is settled is taken out of the document, once. Not in each pause
between records, which would be a second write for each checkpoint."""


class MicroBatchEngine:
    """Runs one attempt of a job until it fails or is asked to drain.

    Spark's stream thread calls, in turns, the planner half (:meth:`latest`, :meth:`partitions`, over the planner's
    socket) and :meth:`_run_batch` (over Py4J), so a checkpoint's steps never overlap with the next one's.

    :param folder: of Spark's query log, rebuilt here; on a volume where operators keep state.
    :param stateful_allowed: whether ``folder`` outlives the driver, so that operators may keep state there.
    :param hold: fault tests: seconds that writers wait before they flush the given checkpoint.
    :param completed: told of each completed checkpoint.
    :ivar liveness: what the stream is doing, for the driver's watchdog.
    :ivar late_rows: rows of this attempt that operators with state have dropped as later than the watermark.
    :ivar clients: totals of the workers' Kafka clients, by worker.
    :ivar lacks_executors: none has registered, as of some seconds ago.
    """

    def __init__(
        self,
        job: Job,
        *,
        spark: SparkSession,
        enumerator: KafkaSourceEnumerator,
        coordinator: CheckpointCoordinator,
        function: Function | None,
        folder: Path,
        stateful_allowed: bool,
        step: Callable[[ProtocolStep, int], None],
        hold: Callable[[int], float],
        completed: Callable[[Completed, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._job_text = encode_job(job)
        self._spark = spark
        self._enumerator = enumerator
        self._coordinator = coordinator
        self._function = function
        self._folder = folder
        self._stateful_allowed = stateful_allowed
        self._step = step
        self._hold = hold
        self._completed = completed
        self._clock = clock
        self.liveness = StreamLiveness()
        self.lacks_executors = False
        self.late_rows = 0
        self.clients: dict[str, Mapping[str, int]] = {}
        self._sizes = RecordSizes()
        self._logged: Mapping[int, Sequence[str]] = {}
        self._columns = ALL_COLUMNS
        self._settled = coordinator.document.checkpoint_id
        self._restored = query_log.restored_engine(coordinator.document)
        self._plan = self._restored.plan
        # The watermark has passed the end of something that no batch has written yet. Spark runs one for that where
        # there is nothing to read, but not as an attempt's first.
        self._owes_batch = self._restored.next_watermark > self._restored.batch_watermark
        self._first_reader: int | None = None
        self._keeps_state: bool | None = None
        self._pending: tuple[KafkaPartitionSplit, ...] | None = None
        self._due = self._planned_at = clock()
        self._draining = threading.Event()
        self._finished_after: int | None = None
        self._has_ended = False
        self._lock = threading.Lock()
        """Guards the three below: whether a checkpoint is planned or under way, and whether another one may begin."""
        self._in_batch = False
        self._stopped = False
        self._failure: KafkaSparkJobError | None = None
        self._query: StreamingQuery | None = None
        self._query_name = f"{job.namespace}.{job.name}"

    # -- the planner half, called from the planner's socket -------------------------------------------------------

    def initial(self) -> int:
        """Constant for the attempt: Spark asks again when it plans the first batch, after :meth:`latest`."""
        return self._restored.plan

    def latest(self, start: int, reader: int) -> int:
        """Fixes the next checkpoint's splits once it is due; ``start`` means "nothing yet".

        A transform that joins the source with itself has several readers, which Spark asks in turns and always in the
        same order. The first one's answer is every one's: all of them read the same records, or none does.
        """
        if self._first_reader is None:
            self._first_reader = reader
        if reader != self._first_reader:
            return self._plan
        try:
            with self.liveness.during("the plan of the next checkpoint", PLAN_SECONDS):
                return self._latest(start)
        except KafkaSparkJobError as error:
            self._failure = self._failure or error
            raise

    def partitions(self, start: int, end: int) -> tuple[Sequence[SubtaskSplits], frozenset[str]]:
        if start == end:
            return [], self._columns
        if self._pending is None or (start, end) != (self._plan - 1, self._plan):
            msg = f"Spark asks for what is between plans {start} and {end}, the plan under way is {self._plan}"
            raise TransactionError(msg)
        groups = self._assigned(self._pending).by_subtask
        self._log_assignment(groups)
        return [SubtaskSplits(subtask, splits) for subtask, splits in groups.items()], self._columns

    def _log_assignment(self, groups: Mapping[int, Sequence[KafkaPartitionSplit]]) -> None:
        """Which subtask reads what, where that is not what it was."""
        assigned = {subtask: [str(split.partition) for split in splits] for subtask, splits in groups.items()}
        if assigned != self._logged:
            self._logged = assigned
            shown = [f"subtask {one}: {', '.join(assigned[one][:_SHOWN])}" for one in sorted(assigned)[:_SHOWN]]
            LOG.info("splits of %d subtasks: %s", len(assigned), "; ".join(shown))

    def _assigned(self, splits: tuple[KafkaPartitionSplit, ...]) -> Assignment:
        spec = self._job.spec
        return assign(splits, spec.parallelism, spec.source.max_records_per_split)

    def progress(self) -> Mapping[str, int]:
        pending = self._enumerator.pending
        known = {} if pending is None else {"pendingRecords": sum(pending.values())}
        return {"plan": self._plan, "checkpoint": self._settled, **known}

    def _latest(self, start: int) -> int:
        if self._pending is not None and self._plan == start + 1:
            return self._plan
        now = self._clock()
        finished = self._enumerator.finished and not self._owes_batch
        if finished:
            self._finish()
        if finished or self._draining.is_set() or now < self._due:
            return start
        self._enumerator.discover_if_due()
        splits = self._enumerator.plan()
        if not any(split.size for split in splits) and not self._owes_batch:
            self._due = now + min(_IDLE_PROBE_SECONDS, self._job.spec.checkpoint_interval_seconds / 10)
            if now - self._planned_at > _IDLE_SECONDS:
                self._keep_idle()
            return start
        # A backlog beyond the cap is worked off without pauses; else the interval sets the pace.
        capped = sum(split.size for split in splits) >= self._job.spec.source.max_offsets_per_checkpoint
        self._due = now if capped else now + self._job.spec.checkpoint_interval_seconds
        with self._lock:
            if self._draining.is_set():
                return start
            self._pending = splits
            self._plan = start + 1
            self._planned_at = now
            self._owes_batch = False
        return self._plan

    def _keep_idle(self) -> None:
        """Between two checkpoints, and as one: a stop writes the document in another thread, and waits for this."""
        with self._lock:
            if self._draining.is_set():
                return
            self._in_batch = True
        try:
            self._coordinator.forget_settled()
            self._coordinator.renew()
        finally:
            with self._lock:
                self._in_batch = False

    def _finish(self) -> None:
        """A bounded source has reached its end: drains once Spark has seen so twice without a batch in between.

        After the last records Spark may run one batch more, without any, for rows that wait for the watermark.
        """
        if self._finished_after == self._settled:
            self._has_ended = True
            self._draining.set()
        self._finished_after = self._settled

    @property
    def finished(self) -> bool:
        """Ended because a bounded source was read to its end, and all that follows from its records is written."""
        return self._stopped and self._has_ended

    # -- the life of the query ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Plans the transform and starts the query.

        :raises TransformError: and ConfigurationError: the user's part does not plan.
        """
        key = secrets.token_bytes(32)
        self._server = PlannerServer(self, directory=Path(tempfile.mkdtemp(prefix="planner-")), key=key)
        self._spark.dataSource.register(KafkaSparkDataSource)
        source = (
            self._spark.readStream.format(FORMAT)
            .options(job=self._job_text, planner=self._server.address, key=key.hex())
            .load()
        )
        records = decode_records(source, self._job)
        result = apply_transform(records, self._job.spec.transform, self._function, self._spark)
        result = encode_records(result, self._job.spec.sink)
        self._columns = lineage.columns_used(result, self._spark)
        limit_stream(self._spark, self._columns)
        LOG.info("columns read from Kafka: %s", ", ".join(sorted(self._columns)))
        query_log.rebuild(
            self._folder, job_uid=self._job.uid, checkpoint_id=self._coordinator.document.checkpoint_id,
            engine=self._restored, sources=lineage.reads_of_source(result),
        )  # fmt: skip
        writer = result.writeStream.outputMode(self._job.spec.transform.output_mode.value)
        writer = writer.foreachBatch(self._run_batch).option("checkpointLocation", self._folder.as_uri())
        with refused_by_streaming():
            self._query = writer.queryName(self._query_name).start()

    def await_executors(self, seconds: float) -> None:
        """Blocks until there is somebody to run tasks, or the query has ended, or the time is over."""
        deadline = Deadline.after(seconds)
        while not (has_executors(self._spark) or self._draining.is_set() or deadline.expired):
            if self._query is None or not self._query.isActive:
                return
            time.sleep(deadline.bound(0.1))

    def drain(self) -> None:
        """Asks for a stop at the next completed checkpoint; returns at once, may be called from a signal handler."""
        self._draining.set()

    def await_end(self) -> None:
        """Blocks until the engine has drained, and with ``semantic: NONE`` until the brokers have every record.

        :raises KafkaSparkJobError: why the query failed; every other kind is wrapped in one.
        """
        query = self._query
        assert query is not None, "started before"
        look_at = self._clock()
        while query.isActive:
            if self._clock() >= look_at:
                self.lacks_executors = not has_executors(self._spark)
                look_at = self._clock() + _LOOK_SECONDS
            time.sleep(0.1)
            if self._draining.is_set() and self._stop_between_checkpoints():
                query.stop()
                break
        self._server.close()
        self.liveness.enter("the end of the query", MAX_STEP_SECONDS)
        if self._stopped and self._failure is None:
            if self._job.spec.sink.semantic is Semantic.NONE:
                flush_workers(self._spark, self._job)
            return
        failure = self._failure or original_error(query.exception())
        raise self._enumerator.explain(failure) if isinstance(failure, OffsetsWentBackwards) else failure

    # -- one micro-batch ------------------------------------------------------------------------------------------

    def _stop_between_checkpoints(self) -> bool:
        """True, and no further batch begins, if none is planned or under way: then the query may be stopped."""
        with self._lock:
            self._stopped = self._pending is None and not self._in_batch
            return self._stopped

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._lock:
            if self._stopped:
                return
            self._in_batch = True
        checkpoint_id = self._restored.base + batch_id + 1
        try:
            with self.liveness.during(f"checkpoint {checkpoint_id}", step_seconds(self._job.spec.sink)):
                self._checkpoint(frame, checkpoint_id, batch_id)
        except Exception as error:
            # Spark searches the text of what is raised here with a regular expression that overflows its stack on
            # a long trace, and the query dies without a reason. Ours is kept, a short one goes on.
            LOG.exception("checkpoint %d failed", checkpoint_id)
            ours = error if isinstance(error, KafkaSparkJobError) else original_error(error)
            if isinstance(ours, TransformFailed):
                ours = while_reading(ours, self._pending or ())
            self._failure = self._failure or ours
            msg = f"checkpoint {checkpoint_id} failed"
            raise RuntimeError(msg) from None
        finally:
            with self._lock:
                self._in_batch = False

    def _checkpoint(self, frame: DataFrame, checkpoint_id: int, batch_id: int) -> None:
        if checkpoint_id <= self._coordinator.document.checkpoint_id:
            return
        if self._keeps_state is None:
            self._keeps_state = keeps_state(self._spark, self._query_name)
        if self._keeps_state and not self._stateful_allowed:
            msg = "the transform keeps state (an aggregation, deduplication or join), and the job has no volume for it"
            raise ConfigurationError(
                msg, remedy="use a transform without state, or name a volume in spec.checkpoint.stateVolume.claimName"
            )
        started = self._clock()
        splits = self._pending if self._pending is not None else self._enumerator.unplanned()
        self._coordinator.prepare(splits)
        frame, orders, aligned = self._orders(frame, checkpoint_id, splits)
        results = self._write(frame, orders, checkpoint_id)
        if self._keeps_state:
            self.late_rows += late_rows(self._spark, self._query_name)
        readers = len(self._assigned(splits).by_subtask)
        stops = stops_found(self._job.spec, self._spark, self._query_name, readers)
        for partition, stop in sorted(stops.items()):
            LOG.info("%s ends at offset %d: source.stopping.predicate", partition, stop - 1)
        splits = cut_at(splits, stops)
        completed = self._coordinator.complete(
            PreCommitted(
                checkpoint_id=checkpoint_id,
                splits=splits,
                stops=stops,
                topic_ids=self._enumerator.topic_ids,
                aligned=aligned,
                committables=tuple(one.committable for one in results if one.committable is not None),
                records_out=sum(one.records for one in results),
                records_skipped=skipped_records(self._job.spec, self._spark, self._query_name),
                records_dead_lettered=sum(one.dead_letters for one in results),
                engine=query_log.encode_engine(
                    query_log.EngineState(
                        plan=self._plan,
                        metadata=query_log.read_metadata(self._folder, batch_id),
                        base=self._restored.base,
                        watermark=next_watermark(self._spark, self._query_name) if self._keeps_state else None,
                        former=query_log.watermark_before(self._folder, batch_id) if self._keeps_state else None,
                        attempt=self._job.attempt if self._keeps_state else None,
                    )
                ),
                engine_has_state=self._keeps_state,
            )
        )
        self._enumerator.complete(splits, stops)
        self._pending = None
        self._settled = checkpoint_id
        if completed is not None:
            self._completed(completed, self._clock() - started)

    def _orders(
        self, frame: DataFrame, checkpoint_id: int, splits: tuple[KafkaPartitionSplit, ...]
    ) -> tuple[DataFrame, list[WriteOrder], bool]:
        """One order a partition of the frame: its subtask and, where it writes what it read, its source ranges.

        The last of the three is whether the document may say ``aligned``. With a partition cut among tasks it may not,
        though each of them writes what it read: two transactions cannot both hold the partition's offset.
        """
        parallelism = self._job.spec.parallelism
        groups, is_cut = self._assigned(splits)
        inside = self._coordinator.mode is OffsetCommitMode.IN_TRANSACTION
        order = partial(
            WriteOrder,
            checkpoint_id=checkpoint_id,
            next_free=self._coordinator.next_free,
            settled=self._settled,
            hold_seconds=self._hold(checkpoint_id),
        )
        # What an operator with state writes now may have been read long ago, also where it needs no shuffle.
        if not self._keeps_state and lineage.is_aligned(frame, len(groups)):
            group_id = self._job.spec.source.group_id if inside and not is_cut else None
            orders = [
                order(subtask=subtask, writes_what_it_reads=True, ranges=() if is_cut else ranges, group_id=group_id)
                for subtask, ranges in groups.items()
            ]
            return frame, orders, not is_cut
        if any(split.size for split in splits):
            require_aligned(self._job.spec)
        count = lineage.partition_count(frame)
        if groups and not count:
            msg = f"checkpoint {checkpoint_id}: the engine planned no task for the splits of {len(groups)} subtasks"
            raise TransactionError(msg)
        if count > parallelism:
            # Each writer needs transactional ids of its own, and there are those of P subtasks.
            frame, count = frame.coalesce(parallelism), parallelism
        orders = [order(subtask=index, writes_what_it_reads=False, ranges=(), group_id=None) for index in range(count)]
        return frame, orders, False

    def _write(self, frame: DataFrame, orders: list[WriteOrder], checkpoint_id: int) -> list[WriteResult]:
        if not orders:
            return []
        self._step(ProtocolStep.BEFORE_FLUSH, checkpoint_id)
        task: Any = partial(write_partition, self._job_text, orders)
        with limited(frame.sparkSession, self._sizes):
            rows = frame.mapInArrow(task, RESULT_DDL).collect()
        results = [decode_result(row.result, orders) for row in rows]
        if sorted(one.index for one in results) != list(range(len(orders))):
            msg = f"checkpoint {checkpoint_id}: {len(results)} answers came from {len(orders)} write tasks"
            raise TransactionError(msg)
        for one in results:
            merge(self.clients, one.clients)
        self._sizes.note(summed(self.clients))
        require_delivered(one.failure for one in results)
        return results
