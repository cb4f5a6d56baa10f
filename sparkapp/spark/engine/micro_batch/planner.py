"""Fixes the splits of each checkpoint when Spark asks for the next offset of its source."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.dataplane.interface import ALL_COLUMNS
from sparkapp.model.checkpoint.split import Assignment, KafkaPartitionSplit, assign
from sparkapp.model.errors import KafkaSparkJobError, TransactionError
from sparkapp.model.job.spec import Job
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.spark.engine.micro_batch.stream_state import StreamState
from sparkapp.spark.engine.schedule import CheckpointSchedule
from sparkapp.spark.reporting.liveness import PLAN_SECONDS, StreamLiveness
from sparkapp.spark.state.query_log import EngineState
from sparkapp.spark.tasks.planner_socket import SubtaskSplits

LOG = logging.getLogger(__name__)

_PAUSE = 0.02
"""Seconds between two looks at whether a checkpoint is due."""
_SHOWN = 20
"""Subtasks, and partitions of each, in one line of the log."""


class MicroBatchPlanner:
    """The engine's half of :class:`sparkapp.spark.tasks.planner_socket.Planner`.

    Spark's stream thread calls it over the planner's socket, never while a micro-batch runs.

    :param restored: the engine's part of the restored checkpoint.
    :param clock: monotonic, in seconds.
    :ivar columns: the source's columns that the transform uses; the engine's query sets them before it starts.
    :ivar has_timers: whether the transform has timers by processing time; set likewise. Spark then runs a batch after
        each answer, and not only where the answer has records. So an answer waits until a checkpoint is due.
    """

    def __init__(
        self,
        job: Job,
        *,
        stream: StreamState,
        enumerator: KafkaSourceEnumerator,
        coordinator: CheckpointCoordinator,
        restored: EngineState,
        liveness: StreamLiveness,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._stream = stream
        self._enumerator = enumerator
        self._schedule = CheckpointSchedule(
            job, enumerator=enumerator, coordinator=coordinator, idle_work=stream.idle_work, clock=clock
        )
        self._restored = restored
        self._liveness = liveness
        self.columns = ALL_COLUMNS
        self.has_timers = False
        self._plan = restored.plan
        # The watermark passed the end of rows that no batch has written yet. Spark runs a batch without records for
        # them, but not as an attempt's first.
        self._owes_batch = restored.next_watermark > restored.batch_watermark
        self._first_reader: int | None = None
        self._pending: tuple[KafkaPartitionSplit, ...] | None = None
        self._finished_after: int | None = None
        self._is_finished = False
        self._logged: Mapping[int, Sequence[str]] = {}

    @property
    def plan(self) -> int:
        """Number of the newest plan."""
        return self._plan

    @property
    def splits(self) -> tuple[KafkaPartitionSplit, ...]:
        """What the checkpoint under way reads; without a plan, every partition with no records."""
        return self._pending if self._pending is not None else self._enumerator.unplanned()

    @property
    def finished(self) -> bool:
        """Whether a bounded source is read to its end, and everything that follows from its records is written."""
        return self._is_finished

    def assigned(self, splits: tuple[KafkaPartitionSplit, ...]) -> Assignment:
        """The splits by the subtask that reads them."""
        spec = self._job.spec
        return assign(splits, spec.parallelism, spec.source.max_records_per_split)

    def complete(self) -> None:
        """The planned checkpoint is complete; called by the checkpoint runner."""
        self._pending = None

    # -- called over the planner's socket -------------------------------------------------------------------------

    def initial(self) -> int:
        """Constant for the attempt: Spark asks again when it plans the first batch, after :meth:`latest`."""
        return self._restored.plan

    def latest(self, start: int, reader: int) -> int:
        """Fixes the next checkpoint's splits once it is due; ``start`` means that there is nothing yet.

        A transform that joins the source with itself has several readers. Spark asks them one after the other, always
        in the same order. The first reader's answer is everyone's, so that all of them read the same records.

        :raises KafkaSparkJobError: what the enumerator or the coordinator raised; the query ends with it.
        """
        if self._first_reader is None:
            self._first_reader = reader
        if reader != self._first_reader:
            return self._plan
        while True:
            try:
                with self._liveness.during("the plan of the next checkpoint", PLAN_SECONDS):
                    plan = self._latest(start)
            except KafkaSparkJobError as error:
                self._stream.fail(error)
                raise
            if plan != start or not self.has_timers or self._stream.draining:
                return plan
            time.sleep(_PAUSE)

    def partitions(self, start: int, end: int) -> tuple[Sequence[SubtaskSplits], frozenset[str]]:
        """The work of each subtask between two plans, and the columns to read.

        :raises TransactionError: Spark asks for another plan than the newest one.
        """
        if start == end:
            return [], self.columns
        if self._pending is None or (start, end) != (self._plan - 1, self._plan):
            msg = f"Spark asked for the splits between plans {start} and {end}: the newest plan is {self._plan}"
            raise TransactionError(msg)
        groups = self.assigned(self._pending).by_subtask
        self._log_assignment(groups)
        return [SubtaskSplits(subtask, splits) for subtask, splits in groups.items()], self.columns

    def progress(self) -> Mapping[str, int]:
        """Plan, newest checkpoint and lag in records, for Spark's own progress reports."""
        pending = self._enumerator.pending
        known = {} if pending is None else {"pendingRecords": sum(pending.values())}
        return {"plan": self._plan, "checkpoint": self._stream.settled, **known}

    # -- one plan -------------------------------------------------------------------------------------------------

    def _latest(self, start: int) -> int:
        if self._pending is not None and self._plan == start + 1:
            return self._plan
        finished = self._enumerator.finished and not self._owes_batch
        if finished:
            self._finish()
        if finished or self._stream.draining:
            return start
        splits = self._schedule.next_splits(owes_batch=self._owes_batch or self.has_timers)
        if splits is None or not self._stream.plan_checkpoint():
            return start
        self._pending = splits
        self._plan = start + 1
        # With timers the first batch behind the last records is not Spark's own: every batch is planned here.
        self._owes_batch = self.has_timers and any(split.size for split in splits)
        return self._plan

    def _finish(self) -> None:
        """Drains a bounded source at its end, once Spark has asked twice without a batch in between.

        After the last records Spark may run one more batch, without any, for rows that wait for the watermark.
        """
        if self._finished_after == self._stream.settled:
            self._is_finished = True
            self._stream.drain()
        self._finished_after = self._stream.settled

    def _log_assignment(self, groups: Mapping[int, Sequence[KafkaPartitionSplit]]) -> None:
        assigned = {subtask: [str(split.partition) for split in splits] for subtask, splits in groups.items()}
        if assigned != self._logged:
            self._logged = assigned
            shown = [
                f"subtask {subtask}: {', '.join(assigned[subtask][:_SHOWN])}" for subtask in sorted(assigned)[:_SHOWN]
            ]
            LOG.info("assigned splits to %d subtasks: %s", len(assigned), "; ".join(shown))
