"""Runs one attempt's stream from the start of its query to an orderly stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import (
    KafkaSparkJobError,
    OffsetsWentBackwards,
    RecordFailed,
    SubtaskMissing,
    TransformFailed,
)
from sparkapp.model.job.spec import Job
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.spark.engine.executors import ExecutorPresence
from sparkapp.spark.engine.micro_batch.checkpoint_runner import CheckpointRunner
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.engine.micro_batch.query import RunningQuery, key_at, run_over, start_query
from sparkapp.spark.engine.micro_batch.record_search import RecordSearch
from sparkapp.spark.engine.micro_batch.stream_state import StreamState
from sparkapp.spark.engine.micro_batch.write_stage import WriteStage
from sparkapp.spark.failures import original_error, while_reading
from sparkapp.spark.frames.transform import Function
from sparkapp.spark.reporting.liveness import MAX_STEP_SECONDS, StreamLiveness
from sparkapp.spark.state.query_log import restored_engine
from sparkapp.spark.tasks.flush import flush_workers

LOG = logging.getLogger(__name__)

_PAUSE = 0.1
"""Seconds between two looks at the query."""


class MicroBatchEngine:
    """Runs one attempt of a job until it fails or is asked to drain.

    Spark's stream thread calls the planner over its socket, then the checkpoint runner over Py4J. So the steps of two
    checkpoints never overlap.

    :param function: the user's transform; None for SQL or no transform.
    :param folder: of Spark's query log, rebuilt by :meth:`start`; on a volume if the transform keeps state.
    :param stateful_allowed: whether ``folder`` outlives the driver, so that the transform may keep state there.
    :param completed: called with each completed checkpoint and the seconds since the start of its tasks.
    :ivar liveness: the stream's present step, for the driver's watchdog.
    :ivar executors: whether Spark has any.
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
        completed: Callable[[Completed, float], None],
    ) -> None:
        self._job = job
        self._spark = spark
        self._enumerator = enumerator
        self._function = function
        self._folder = folder
        self._query_name = f"{job.namespace}.{job.name}"
        self._checkpoint_id = coordinator.document.checkpoint_id
        self._restored = restored_engine(coordinator.document)
        self.liveness = StreamLiveness()
        self.executors = ExecutorPresence(spark, is_over=self._is_over)
        self._stream = StreamState(self._checkpoint_id)
        self._planner = MicroBatchPlanner(
            job, stream=self._stream, enumerator=enumerator, coordinator=coordinator, restored=self._restored,
            liveness=self.liveness,
        )  # fmt: skip
        self._write_stage = WriteStage(job, planner=self._planner, stream=self._stream, coordinator=coordinator)
        self._runner = CheckpointRunner(
            job, spark=spark, query_name=self._query_name, planner=self._planner, stream=self._stream,
            write_stage=self._write_stage, enumerator=enumerator, coordinator=coordinator, restored=self._restored,
            liveness=self.liveness, folder=folder, stateful_allowed=stateful_allowed, completed=completed,
        )  # fmt: skip
        self._running: RunningQuery | None = None

    @property
    def finished(self) -> bool:
        """Whether the engine stopped because a bounded source was read to its end."""
        return self._stream.stopped and self._planner.finished

    watermarks = None
    """Spark has one watermark for a query, of what the transform declares."""

    @property
    def late_rows(self) -> int:
        """Rows of this attempt that the transform dropped as later than the watermark."""
        return self._runner.late_rows

    @property
    def clients(self) -> Mapping[str, Mapping[str, int]]:
        """Totals of the workers' Kafka clients, by worker."""
        return self._write_stage.clients

    def start(self) -> None:
        """Plans the transform and starts the query; called by the attempt once.

        :raises TransformError: and ConfigurationError: the transform does not plan, or a stream cannot run it.
        """
        self._running = start_query(
            self._job, spark=self._spark, name=self._query_name, function=self._function, planner=self._planner,
            run_batch=self._runner.run_batch, folder=self._folder, checkpoint_id=self._checkpoint_id,
            restored=self._restored,
        )  # fmt: skip

    def drain(self) -> None:
        """Asks for a stop at the next completed checkpoint. Returns at once; a signal handler may call it."""
        self._stream.drain()

    def await_end(self) -> None:
        """Blocks until the engine has drained; with ``deliveryGuarantee: None`` until the brokers have every record.

        :raises KafkaSparkJobError: why the query failed; every other kind is wrapped in one.
        """
        assert self._running is not None, "started before"
        query = self._running.query
        while query.isActive:
            self.executors.count()
            time.sleep(_PAUSE)
            if not self._stream.draining:
                continue
            if self._stream.stop_between_checkpoints():
                query.stop()
                break
            if not self.executors.has_run:
                LOG.info("the checkpoint under way is given up: no executor has come")
                self._stream.abandon()
                self._spark.sparkContext.cancelAllJobs()
                query.stop()
                break
        self._running.server.close()
        self.liveness.enter("the end of the query", MAX_STEP_SECONDS)
        if self._stream.abandoned and self.executors.has_run:
            # The attempt then ends what a task may have begun.
            msg = "an executor came while the job was being stopped without one"
            raise SubtaskMissing(msg)
        if self._stream.abandoned:
            return
        if self._stream.stopped and self._stream.failure is None:
            if self._job.spec.sink.delivery_guarantee is DeliveryGuarantee.NONE:
                flush_workers(self._spark, self._job)
            return
        failure = self._stream.failure or original_error(query.exception())
        raise self._enumerator.explain(failure) if isinstance(failure, OffsetsWentBackwards) else failure

    def with_record(self, error: KafkaSparkJobError) -> KafkaSparkJobError:
        """The error of the last checkpoint with the record that it is about; called once the query has ended.

        Not where the transform keeps state: its error may be about records of earlier checkpoints.
        """
        if not isinstance(error, TransformFailed) or isinstance(error, RecordFailed):
            return error
        splits = self._planner.splits
        if self._runner.keeps_state:
            return while_reading(error, splits)
        search = RecordSearch(
            run=partial(
                run_over, self._job, spark=self._spark, function=self._function, columns=self._planner.columns
            ),
            key_of=partial(key_at, self._job, spark=self._spark),
            cancel=self._spark.sparkContext.cancelAllJobs, wanted=lambda: not self._stream.draining,
        )  # fmt: skip
        return search.with_record(error, splits)

    def _is_over(self) -> bool:
        return self._stream.draining or self._running is None or not self._running.query.isActive
