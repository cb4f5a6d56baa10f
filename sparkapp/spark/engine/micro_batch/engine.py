"""Runs one attempt's stream from the start of its query to an orderly stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.model.errors import (
    KafkaSparkJobError,
    OffsetsWentBackwards,
    RecordFailed,
    SubtaskMissing,
    TransformFailed,
)
from sparkapp.spark.engine.executors import ExecutorPresence
from sparkapp.spark.engine.interface import EngineParts
from sparkapp.spark.engine.micro_batch.checkpoint_runner import CheckpointRunner
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.engine.micro_batch.query import RunningQuery, key_at, run_over, start_query
from sparkapp.spark.engine.micro_batch.record_search import RecordSearch
from sparkapp.spark.engine.micro_batch.second_read import SecondRead
from sparkapp.spark.engine.micro_batch.stream_state import StreamState
from sparkapp.spark.engine.micro_batch.transform_policy import TransformPolicy
from sparkapp.spark.engine.micro_batch.write_stage import WriteStage
from sparkapp.spark.failures import original_error, while_reading
from sparkapp.spark.frames.transform import Function
from sparkapp.spark.reporting.liveness import MAX_STEP_SECONDS, StreamLiveness
from sparkapp.spark.state.query_log import QueryLog
from sparkapp.spark.tasks.flush import flush_workers

LOG = logging.getLogger(__name__)

_PAUSE = 0.1
"""Seconds between two looks at the query."""


class MicroBatchEngine:
    """Runs one attempt of a job until it fails or is asked to drain.

    Spark's stream thread calls the planner over its socket, then the checkpoint runner over Py4J. So the steps of two
    checkpoints never overlap.

    :param parts: its seconds of a checkpoint count from the start of the checkpoint's tasks.
    :param function: the user's transform; None for SQL or no transform.
    :param log: of the query; :meth:`start` rebuilds it.
    :ivar liveness: the stream's present step, for the driver's watchdog.
    :ivar executors: whether Spark has any.
    """

    def __init__(self, parts: EngineParts[CheckpointCoordinator], *, function: Function | None, log: QueryLog) -> None:
        self._parts = parts
        self._log = log
        self._function = function
        self._query_name = f"{parts.job.namespace}.{parts.job.name}"
        self._checkpoint_id = parts.coordinator.document.checkpoint_id
        self.liveness = StreamLiveness()
        self.executors = ExecutorPresence(parts.spark, is_over=self._is_over)
        self._stream = StreamState(self._checkpoint_id)
        self._planner = MicroBatchPlanner(
            parts.job, stream=self._stream, enumerator=parts.enumerator, coordinator=parts.coordinator,
            restored=log.restored, liveness=self.liveness,
        )  # fmt: skip
        policy = TransformPolicy(
            parts.job, spark=parts.spark, query_name=self._query_name, function=function, planner=self._planner,
            liveness=self.liveness,
        )  # fmt: skip
        self._second_read = SecondRead(parts.job, spark=parts.spark, planner=self._planner, query_name=self._query_name)
        self._write_stage = WriteStage(
            parts.coordinator, planner=self._planner, stream=self._stream, policy=policy,
            second_read=self._second_read,
        )  # fmt: skip
        self._runner = CheckpointRunner(
            parts, log=log, query_name=self._query_name, planner=self._planner, stream=self._stream,
            write_stage=self._write_stage, liveness=self.liveness,
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
    def growing_state(self) -> tuple[str, ...]:
        """See :attr:`sparkapp.spark.engine.interface.Engine.growing_state`."""
        return self._runner.growing_state

    @property
    def busy_millis(self) -> int:
        """See :attr:`sparkapp.spark.engine.interface.Engine.busy_millis`: all subtasks work while a checkpoint runs."""
        return round(self._runner.busy_seconds * 1000) * self._parts.job.spec.parallelism

    @property
    def clients(self) -> Mapping[str, Mapping[str, int]]:
        """Totals of the workers' Kafka clients, by worker."""
        return self._write_stage.clients

    def start(self) -> None:
        """Plans the transform and starts the query; called by the attempt once.

        :raises TransformError: and ConfigurationError: the transform does not plan, or a stream cannot run it.
        """
        self._running = start_query(
            self._parts.job, spark=self._parts.spark, name=self._query_name, function=self._function,
            planner=self._planner, run_batch=self._runner.run_batch, log=self._log, checkpoint_id=self._checkpoint_id,
            second_read=self._second_read,
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
                self._parts.spark.sparkContext.cancelAllJobs()
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
            if not self._parts.job.spec.sink.delivery_guarantee.acknowledged:
                flush_workers(self._parts.spark, self._parts.job)
            return
        failure = self._stream.failure or original_error(query.exception())
        raise self._parts.enumerator.explain(failure) if isinstance(failure, OffsetsWentBackwards) else failure

    def close(self) -> None:
        """The query has ended in :meth:`await_end`."""

    def with_record(self, error: KafkaSparkJobError) -> KafkaSparkJobError:
        """The error of the last checkpoint with the record that it is about; called once the query has ended.

        Not where the transform keeps state: its error may be about records of earlier checkpoints.
        """
        if not isinstance(error, TransformFailed) or isinstance(error, RecordFailed):
            return error
        job, spark, splits = self._parts.job, self._parts.spark, self._planner.splits
        if self._runner.keeps_state:
            return while_reading(error, splits)
        search = RecordSearch(
            run=partial(run_over, job, spark=spark, function=self._function, columns=self._planner.columns),
            key_of=partial(key_at, job, spark=spark),
            cancel=spark.sparkContext.cancelAllJobs, wanted=lambda: not self._stream.draining,
        )  # fmt: skip
        return search.with_record(error, splits)

    def _is_over(self) -> bool:
        return self._stream.draining or self._running is None or not self._running.query.isActive
