"""What an attempt gives its engine, and asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.spec import Job
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot
from sparkapp.spark.engine.executors import ExecutorPresence
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.reporting.liveness import StreamLiveness

Coordinator_co = TypeVar("Coordinator_co", bound=CheckpointCoordinator | LocalCoordinator, covariant=True)


@dataclass(frozen=True, kw_only=True)
class EngineParts(Generic[Coordinator_co]):
    """What every engine works with.

    :param completed: called with each completed checkpoint and its seconds, which each engine counts in its own way.
    """

    spark: Spark
    enumerator: KafkaSourceEnumerator
    coordinator: Coordinator_co
    completed: Callable[[Completed, float], None]

    @property
    def job(self) -> Job:
        """With the parallelism of the next checkpoint."""
        return self.coordinator.job


class Engine(Protocol):
    """Completes checkpoints until it is drained or fails; used by the attempt, from the driver's main thread."""

    liveness: StreamLiveness
    """The present step, for the driver's watchdog."""
    executors: ExecutorPresence
    """Whether Spark has executors."""

    @property
    def finished(self) -> bool:
        """Whether the engine stopped because a bounded source was read to its end."""
        ...

    @property
    def late_rows(self) -> int:
        """Rows of this attempt that the transform dropped as later than the watermark."""
        ...

    @property
    def growing_state(self) -> tuple[str, ...]:
        """What operators of the transform keep for ever; known from the first batch on."""
        ...

    @property
    def clients(self) -> Mapping[str, Mapping[str, int]]:
        """Totals of the workers' Kafka clients, by worker."""
        ...

    @property
    def busy_millis(self) -> int:
        """Time in which subtasks have worked, in milliseconds, summed over them. From any thread."""
        ...

    @property
    def watermarks(self) -> WatermarkSnapshot | None:
        """Watermarks by partition, subtask and job; None without them. From any thread."""
        ...

    def start(self) -> None:
        """Starts the work on Spark. :raises KafkaSparkJobError: it cannot be planned."""
        ...

    def drain(self) -> None:
        """Asks for a stop at the next completed checkpoint. Returns at once; a signal handler may call it."""
        ...

    def await_end(self) -> None:
        """Blocks until the engine has drained or finished, and begins no transaction any more.

        :raises KafkaSparkJobError: why it failed. Nothing of the engine runs behind it.
        """
        ...

    def close(self) -> None:
        """Ends what still runs without a transaction; called when the document says that nothing is open."""
        ...

    def with_record(self, error: KafkaSparkJobError) -> KafkaSparkJobError:
        """An error of :meth:`await_end` that is about a record with the record, where the engine can find it.

        Called when the attempt has no open transaction any more. It may take a minute.
        """
        ...
