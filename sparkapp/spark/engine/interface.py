"""What an attempt asks of its engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot
from sparkapp.spark.engine.executors import ExecutorPresence
from sparkapp.spark.reporting.liveness import StreamLiveness


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
    def clients(self) -> Mapping[str, Mapping[str, int]]:
        """Totals of the workers' Kafka clients, by worker."""
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
        """Blocks until the engine has drained or finished. :raises KafkaSparkJobError: why it failed."""
        ...

    def with_record(self, error: KafkaSparkJobError) -> KafkaSparkJobError:
        """An error of :meth:`await_end` that is about a record with the record, where the engine can find it.

        Called when the attempt has no open transaction any more. It may take a minute.
        """
        ...
