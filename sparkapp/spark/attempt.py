"""One attempt whose parts are wired: runs the engine until an orderly stop or a failure."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.checkpoint.retained import CheckpointRetainer
from sparkapp.dataplane.batch import open_consumer
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import (
    CheckpointMissing,
    CheckpointRefused,
    KafkaSparkJobError,
    RecordRefused,
    SchemaError,
    SubtaskMissing,
    TransformFailed,
)
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spec import Engine as Chosen
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.report import DriverState
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl, leave_nothing_open
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.record_tally import tallies
from sparkapp.source.refused_record import with_source
from sparkapp.spark.engine.continuous.engine import ContinuousEngine, StartedSubtasks
from sparkapp.spark.engine.interface import Engine, EngineParts
from sparkapp.spark.engine.micro_batch.engine import MicroBatchEngine
from sparkapp.spark.engine.micro_batch.repartition import StateFolder, repartition, repartition_due
from sparkapp.spark.frames.record_policy import judges_records
from sparkapp.spark.frames.transform import import_function
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.launch.session import CoreSession, Spark
from sparkapp.spark.reporting.announcements import Announcements
from sparkapp.spark.reporting.dropped_records import DroppedRecords
from sparkapp.spark.reporting.liveness import CODE_SECONDS, START_SECONDS, Watchdog
from sparkapp.spark.reporting.load_meter import LOAD_SECONDS, SLOW_LOAD_SECONDS
from sparkapp.spark.reporting.progress import Progress
from sparkapp.spark.reporting.reporter import Reporter
from sparkapp.spark.reporting.telemetry.lineage import AttemptLineage
from sparkapp.spark.reporting.telemetry.traces import CheckpointSpans
from sparkapp.spark.state.query_log import QueryLog, encode_engine, restored_engine
from sparkapp.spark.tasks.client_totals import summed

LOG = logging.getLogger(__name__)

_EXECUTORS_SECONDS = 30.0
"""Longest wait for the first executor before the attempt reports Running. The operator reports missing pods."""


@dataclass(frozen=True, kw_only=True)
class AttemptContext:
    """What an attempt has from its driver.

    :param job: with the parallelism that the attempt begins with.
    :param draining: set when a stop is asked for.
    :param watchdog: ends the attempt if it makes no progress.
    :param stack: closes clients and threads at the attempt's end.
    """

    job: Job
    environment: DriverEnvironment
    reporter: Reporter
    progress: Progress
    draining: threading.Event
    watchdog: Watchdog
    stack: ExitStack


@dataclass(kw_only=True, eq=False)
class Attempt:
    """Made by :class:`sparkapp.spark.wiring.wiring.Wiring` after recovery; the driver calls :meth:`run` once.

    :param session: the Spark session that comes up.
    :param subtasks: of the continuous engine, which run already; None where the engine starts them.
    :param folder: of Spark's query log and state.
    :param control: the job's transactions, for lost subtasks and for an attempt that cannot drain.
    :param consumer: configuration of the job's consumers.
    :param group_offsets: commits the group's offsets after checkpoints.
    :param retainer: keeps earlier checkpoints; None for members of a consumer group.
    :param spans: of its checkpoints, and ``lineage``: events of its run; None where nothing asks for them.
    """

    context: AttemptContext
    session: Future[Spark]
    folder: StateFolder
    claim: Claim
    control: KafkaTransactionControl
    consumer: Mapping[str, str]
    enumerator: KafkaSourceEnumerator
    coordinator: CheckpointCoordinator | LocalCoordinator
    group_offsets: OffsetCommitter | GroupMembership
    retainer: CheckpointRetainer | None
    announcements: Announcements
    subtasks: StartedSubtasks | None = None
    spans: CheckpointSpans | None = None
    lineage: AttemptLineage | None = None
    _engine: Engine | None = field(default=None, init=False)
    _logged_at: float = field(default=0.0, init=False)
    _dropped: DroppedRecords = field(init=False)

    def __post_init__(self) -> None:
        self._dropped = DroppedRecords(self.job.spec.record_errors)

    @property
    def job(self) -> Job:
        """With the parallelism of the next checkpoint."""
        return self.coordinator.job

    @property
    def finished(self) -> bool:
        """Whether a bounded source was read to its end."""
        return self._engine is not None and self._engine.finished

    def drain(self) -> None:
        """Stops the engine at the next completed checkpoint; before the engine has started, ``draining`` does."""
        if self._engine is not None:
            self._engine.drain()

    def run(self) -> None:
        """Completes checkpoint after checkpoint until the end; blocks.

        :raises KafkaSparkJobError: why the attempt failed.
        """
        with nullcontext() if self.lineage is None else self.lineage.run(has_run=lambda: self._engine is not None):
            self._run()

    def _run(self) -> None:
        import_pandas(self.job.spec)
        engine = self._made_engine()
        self.context.progress.client_totals = lambda: summed(engine.clients)
        self.context.progress.watermarks = lambda: engine.watermarks
        self._measure_load(engine)
        if self.context.draining.is_set():
            self._retain_last()
            return
        self._run_engine(engine)
        try:
            self._end(engine)
        finally:
            engine.close()

    def _measure_load(self, engine: Engine) -> None:
        chosen, _ = chosen_engine(self.job.spec)
        quick = chosen is Chosen.CONTINUOUS and not self.job.spec.has_local_pace
        self.context.progress.measure_load(
            lambda: engine.busy_millis, window_seconds=LOAD_SECONDS if quick else SLOW_LOAD_SECONDS,
            parallelism=self.job.spec.parallelism,
        )  # fmt: skip

    def _made_engine(self) -> Engine:
        chosen, _ = chosen_engine(self.job.spec)
        # From now on the JVM is called, which may be frozen.
        self.context.watchdog.enter("the start of Spark", START_SECONDS)
        spark = self.session.result()
        self.context.watchdog.enter("the import of the transform's module", CODE_SECONDS)
        function = import_function(self.job.spec.transform)
        if chosen is Chosen.CONTINUOUS:
            parts = EngineParts(
                spark=spark, enumerator=self.enumerator, coordinator=self.coordinator, completed=self._completed
            )
            return ContinuousEngine(
                parts, fence=self.control.fence, announcements=self.announcements,
                scale=self.context.environment.scale or _never_asked, report=self.context.reporter.update,
                started=self.subtasks,
            )  # fmt: skip
        coordinator, stateful_allowed = self.coordinator, self.context.environment.stateful_allowed
        assert isinstance(coordinator, CheckpointCoordinator), "a rule of the job"
        assert not isinstance(spark, CoreSession), "that of the other engine"
        if not self.context.draining.is_set():
            self._repartition(spark, coordinator)
        log = QueryLog(self.folder, stateful_allowed, restored_engine(coordinator.document))
        return MicroBatchEngine(
            EngineParts(spark=spark, enumerator=self.enumerator, coordinator=coordinator, completed=self._completed),
            function=function, log=log,
        )  # fmt: skip

    def _repartition(self, spark: SparkSession, coordinator: CheckpointCoordinator) -> None:
        """Divides query state again where the job asks for another number of partitions; before the first batch."""
        change = repartition_due(self.job, coordinator.document, self.folder)
        if change is None:
            return
        self.context.watchdog.enter("the repartition of query state", CODE_SECONDS)
        started = time.monotonic()
        engine = repartition(spark, self.job, coordinator.document, self.folder, change)
        completed = coordinator.complete_repartition(encode_engine(engine))
        seconds = time.monotonic() - started
        self._completed(completed, seconds)
        self.context.reporter.event(
            DriverEvent.STATE_REPARTITIONED,
            f"query state has {change.after} partitions instead of {change.before}"
            f" from checkpoint {completed.document.checkpoint_id} on; that took {seconds:.1f} s",
        )

    def _run_engine(self, engine: Engine) -> None:
        self.context.watchdog.enter("the start of the engine and its transform", CODE_SECONDS)
        engine.start()
        chosen, reason = chosen_engine(self.job.spec)
        LOG.info("the %s engine has started: %s", chosen.value, reason)
        self._engine = engine
        if self.context.draining.is_set():
            engine.drain()
        self.context.watchdog.enter("the look for the first executor", START_SECONDS)
        engine.executors.await_first(_EXECUTORS_SECONDS)
        self.context.reporter.event(
            DriverEvent.RUNNING,
            f"attempt {self.job.attempt} runs with parallelism {self.job.spec.parallelism}"
            f" after checkpoint {self.coordinator.document.checkpoint_id}; engine {chosen.value}: {reason}",
        )
        self.context.reporter.update(
            state=DriverState.RUNNING, engine=chosen.value, engine_message=reason,
            parallelism=self.job.spec.parallelism,
            rescales=chosen is Chosen.CONTINUOUS
            and not self.job.spec.has_local_pace
            and self.context.environment.scale is not None,
        )  # fmt: skip
        self.context.watchdog.watch(engine.liveness, suspended=lambda: engine.executors.lacking)
        try:
            try:
                engine.await_end()
            finally:
                self.context.watchdog.enter("the end of the attempt", CODE_SECONDS)
        except Exception as error:
            if self.spans is not None:
                self.spans.failed(error)
            if self.context.draining.is_set() or _is_last(error):
                leave_nothing_open(self.control, self.claim, self.coordinator.document, error)
            if isinstance(error, RecordRefused):
                raise with_source(error, partial(open_consumer, self.consumer)) from error
            named = engine.with_record(error) if isinstance(error, TransformFailed) else error
            if named is error:
                raise
            raise named from error

    def _end(self, engine: Engine) -> None:
        """The group's offsets and the document of an orderly stop."""
        coordinator = self.coordinator
        if isinstance(coordinator, CheckpointCoordinator) and coordinator.mode is not OffsetCommitMode.DISABLED:
            if engine.finished:
                coordinator.commit_ends()
            self.group_offsets.drain(10)
        self._retain_last()
        self.coordinator.drained(finished=engine.finished)
        LOG.info("the document says that nothing is open")
        checkpoint_id = self.context.progress.snapshot.checkpoint_id
        if engine.finished:
            reason, message = DriverEvent.FINISHED, f"read to its end; checkpoint {checkpoint_id} is the last"
        else:
            reason, message = DriverEvent.DRAINED, f"stopped after checkpoint {checkpoint_id}, no transaction is open"
        self.context.reporter.event(reason, message)

    def _retain_last(self) -> None:
        """Called before the document is drained. Readers of a drained document look for its entry (ADR 117)."""
        if self.retainer is not None:
            self.retainer.close(last=self.coordinator.document)

    def _completed(self, completed: Completed, seconds: float) -> None:
        """
        :param seconds: since the start of the checkpoint's tasks.
        """
        document = completed.document
        self.context.environment.on_completed(completed)
        LOG.log(
            self._log_level(),
            "checkpoint %d: %d offsets in, %d transactions, %.0f ms (write %d ms, commit %d ms)",
            document.checkpoint_id, sum(split.size for split in document.splits), len(document.committables),
            seconds * 1000, completed.write_millis, completed.commit_millis,
        )  # fmt: skip
        late_rows = self._engine.late_rows if self._engine is not None else 0
        self.context.progress.completed(completed, seconds, late_rows=late_rows)
        if self.spans is not None:
            self.spans.completed(completed, seconds)
        if self.lineage is not None:
            self.lineage.completed(completed)
        if self.retainer is not None:
            self.retainer.offer(document)
        self.announcements.bad_records(document.counters)
        self.announcements.growing_state(self._engine.growing_state if self._engine is not None else ())
        if self._engine is not None and judges_records(self.job.spec):
            finding = self._dropped.judge(tallies(self._engine.clients))
            self.context.reporter.update(records_judged=self._dropped.judged, records_dropped=finding)
            self.announcements.records_dropped(finding)

    def _log_level(self) -> int:
        """The first checkpoint of a second is worth a line of the log."""
        now = time.monotonic()
        if now < self._logged_at + 1:
            return logging.DEBUG
        self._logged_at = now
        return logging.INFO


def _is_last(error: Exception) -> bool:
    """Whether this attempt may be the last for some time, so that no other ends the open transactions.

    The job is deleted, or waits for a person, or the next driver may find as little room as the executors. The operator
    gives a job up after some failures of its transform or its schemas, and counts them by itself.
    """
    fatal = isinstance(error, KafkaSparkJobError) and error.fatal
    others = CheckpointMissing | CheckpointRefused | SubtaskMissing | TransformFailed | SchemaError
    return fatal or isinstance(error, others)


def _never_asked() -> None:
    """The scale of a driver without a cluster: no operator asks for another."""


def import_pandas(spec: JobSpec) -> None:
    """Imports what PySpark needs when it first plans a Python stage: a second of CPU, while the JVM comes up.

    The continuous engine plans no stage.
    """
    if chosen_engine(spec)[0] is Chosen.CONTINUOUS:
        return
    for name in ("pandas", "pyspark.sql.pandas.functions"):
        importlib.import_module(name)
