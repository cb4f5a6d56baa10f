"""What the continuous engine asks of a pace, two-phase checkpoints or the local pace, and what it gives a pace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.model.job.spec import Job
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.places import SubtaskPlaces
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.tasks.control_frames import Answer

Coordinator = TypeVar("Coordinator", CheckpointCoordinator, LocalCoordinator)


@dataclass(frozen=True, kw_only=True)
class PaceParts(Generic[Coordinator]):
    """What a pace works with; the engine gives it.

    :param server: the connections of the subtasks.
    :param coordinator: of the checkpoints of this pace.
    :param completed: called with each completed checkpoint and its seconds. They count from the barrier or the begin;
        in the local pace from the previous record of the subtasks' commits.
    :param await_subtasks: called while a subtask has not answered; raises why none will.
    :param liveness: gets each step with a limit of time.
    :param places: makes the check of that number of subtasks.
    """

    server: ControlServer
    enumerator: KafkaSourceEnumerator
    coordinator: Coordinator
    completed: Callable[[Completed, float], None]
    await_subtasks: Callable[[], None]
    liveness: StreamLiveness
    places: Callable[[int], SubtaskPlaces]

    @property
    def job(self) -> Job:
        """With the parallelism of the next checkpoint."""
        return self.coordinator.job


class Pace(Protocol):
    """Used by the engine, in its thread."""

    @property
    def clients(self) -> Mapping[str, Mapping[str, int]]:
        """Totals of the workers' Kafka clients, by worker."""
        ...

    @property
    def watermarks(self) -> WatermarkSnapshot | None:
        """See :attr:`sparkapp.spark.engine.interface.Engine.watermarks`."""
        ...

    @property
    def parallelism(self) -> int:
        """Number of subtasks that are needed now."""
        ...

    @property
    def places(self) -> SubtaskPlaces:
        """The check of these subtasks' places."""
        ...

    @property
    def awaits_place(self) -> bool:
        """Whether nothing is done until a lost subtask has a place to run at."""
        ...

    def ids_of(self, subtask: int) -> Collection[str]:
        """Ids under which a lost subtask may have an open transaction."""
        ...

    def step(self, *, draining: bool) -> bool:
        """Does what can be done, and waits a little for the next; False: the subtasks may be asked to end.

        :param draining: a stop is asked for.
        :raises KafkaSparkJobError: why the attempt fails.
        """
        ...

    def take(self, answer: Answer) -> None:
        """Takes what a subtask says while it is asked to end."""
        ...

    def end(self) -> None:
        """Called at an end of any kind, before the subtasks are asked to end. :raises KafkaSparkJobError: as step."""
        ...

    def ended(self, silent: set[int]) -> None:
        """All subtasks have ended in order, but for those that did not say so.

        :raises KafkaSparkJobError: the end was not in order.
        """
        ...
