"""The two-phase pace: all subtasks write a checkpoint up to their pre-commits, and the driver commits it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.rules.engine_rules import planned_by
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import MAX_OFFSET
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import Scale
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot, job_watermarks_of
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.engine.continuous.pipeline import CheckpointPipeline
from sparkapp.spark.engine.continuous.places import SubtaskPlaces
from sparkapp.spark.engine.continuous.rescaling import Rescaling
from sparkapp.spark.engine.continuous.subtasks import Subtasks
from sparkapp.spark.engine.schedule import CheckpointSchedule
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.reporting.liveness import PLAN_SECONDS, step_seconds
from sparkapp.spark.tasks.control_frames import Answer
from sparkapp.spark.tasks.flush import not_everything_sent

_PAUSE = 0.1
"""Longest pause in seconds between two looks at a stop that was asked for."""

_MAX_OPEN_SECONDS = 1.0
"""Longest time in seconds from the begin of a checkpoint to its barrier: an open transaction blocks readers."""
_TIMEOUT_SHARE = 0.1
"""The same as a part of the transactions' time-out."""


class TwoPhasePace:
    """Plans a checkpoint before it is due; see :class:`sparkapp.spark.engine.continuous.pace.Pace`.

    Its subtasks read and write until the barrier, which comes when it is due (ADR 61). Where the driver plans all
    ranges, a checkpoint begins when it is due.

    :param may_complete: see the pipeline.
    :param scale: the parallelism that the operator asks for, None before it asks.
    :param report: gets fields of the driver's report.
    """

    def __init__(
        self,
        parts: PaceParts[CheckpointCoordinator],
        *,
        may_complete: Callable[[], bool],
        spark: Spark,
        subtasks: Subtasks,
        scale: Callable[[], Scale | None],
        report: Callable[..., None],
    ) -> None:
        job = parts.job
        self._source, self._sink = job.spec.source, job.spec.sink
        self._enumerator = parts.enumerator
        self._liveness = parts.liveness
        self._watermarks = job_watermarks_of(job.spec)
        self._schedule = CheckpointSchedule(
            job, enumerator=parts.enumerator, coordinator=parts.coordinator,
            idle_work=lambda: nullcontext(self._pipeline.oldest is None),
            lead=_lead(job.spec),
            alone_until=lambda: self._pipeline.alone_until,
        )  # fmt: skip
        self._pipeline = CheckpointPipeline(parts, may_complete=may_complete, watermarks=self._watermarks)
        self._rescaling = Rescaling(
            wanted=scale, spark=spark, server=parts.server, subtasks=subtasks,
            pipeline=self._pipeline, places=parts.places, report=report,
        )  # fmt: skip
        self._watched: int | None = None

    @property
    def clients(self) -> Mapping[str, Mapping[str, int]]:
        return self._pipeline.clients

    @property
    def watermarks(self) -> WatermarkSnapshot | None:
        return None if self._watermarks is None else self._watermarks.snapshot

    @property
    def parallelism(self) -> int:
        return self._rescaling.parallelism

    @property
    def places(self) -> SubtaskPlaces:
        return self._rescaling.places

    @property
    def awaits_place(self) -> bool:
        return self._pipeline.awaits_place

    def ids_of(self, subtask: int) -> Collection[str]:
        return self._pipeline.ids_of(subtask)

    def step(self, *, draining: bool) -> bool:
        is_over = draining or self._enumerator.finished
        if draining:
            self._pipeline.give_up_unseen()
        if is_over and self._pipeline.oldest is None:
            return False
        if not is_over:
            self._rescaling.advance()
        wait = _PAUSE
        if self._pipeline.takes_next and not (is_over or self._rescaling.holds_back):
            self._plan()
            wait = min(wait, self._schedule.seconds_left)
        if self._pipeline.is_open:
            if is_over or self._rescaling.holds_back or not self._schedule.seconds_to_barrier:
                self._pipeline.barrier()
            else:
                wait = min(wait, self._schedule.seconds_to_barrier)
        self._watch()
        self._pipeline.advance(wait, draining=draining)
        return True

    def take(self, answer: Answer) -> None:
        """No checkpoint runs when the subtasks are asked to end."""

    def end(self) -> None:
        self._pipeline.end()

    def ended(self, silent: set[int]) -> None:
        """With ``deliveryGuarantee: None`` brokers have every record if no subtask is silent."""
        if silent and not self._sink.delivery_guarantee.acknowledged:
            raise not_everything_sent(f"subtasks {sorted(silent)} did not confirm that their records were sent")

    def _plan(self) -> None:
        if self._pipeline.oldest is None:
            self._liveness.enter("the plan of the next checkpoint", PLAN_SECONDS)
        splits = self._schedule.next_splits()
        if splits is None:
            self._pipeline.look()
        else:
            self._pipeline.begin(splits, self._limits(splits) if self._schedule.seconds_to_barrier else None)

    def _limits(self, splits: tuple[KafkaPartitionSplit, ...]) -> dict[TopicPartition, int] | None:
        """How far each partition may be read until the barrier; None where that is no farther than the plan."""
        room = (self._source.max_offsets_per_checkpoint - sum(split.size for split in splits)) // len(splits)
        stops = self._enumerator.stops
        limits = {
            split.partition: max(split.stop, min(split.stop + room, stops.get(split.partition, MAX_OFFSET)))
            for split in splits
        }
        return limits if any(limits[split.partition] > split.stop for split in splits) else None

    def _watch(self) -> None:
        """The watchdog counts the time of the oldest checkpoint, whatever is planned behind it."""
        oldest = self._pipeline.oldest
        if oldest is None:
            self._liveness.enter("the wait for records", PLAN_SECONDS)
        elif oldest != self._watched:
            self._liveness.enter(f"checkpoint {oldest}", step_seconds(self._sink))
        self._watched = oldest


def _lead(spec: JobSpec) -> float:
    """Seconds for which a checkpoint may be open; 0 where the driver plans all ranges."""
    timeout = spec.sink.transaction_timeout_millis / 1000
    return 0.0 if planned_by(spec.source) else min(_MAX_OPEN_SECONDS, timeout * _TIMEOUT_SHARE)
