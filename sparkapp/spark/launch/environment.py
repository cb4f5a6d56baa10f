"""What differs between a driver in a pod and one on a developer's machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model.report import Scale, Termination
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.launch.standby import Activation


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnvironment:
    """Stores, files and processes of one driver; made by ``sparkapp run``, by benches and by tests.

    :param store: of the checkpoint document.
    :param write_report: puts a report's text where the operator reads it; must not raise.
    :param open_session: called once, in a thread, while recovery runs; ``close_session`` at the attempt's end.
    :param folder: for Spark's query log; outlives the attempt if ``stateful_allowed``.
    :param credentials: folder with the mounted credentials and certificates of ``spec.kafka``.
    :param activation: of a standby driver; None for an attempt that begins at once.
    :param takes_over: a standby driver that also checks brokers and starts its subtasks before its activation.
    :param retained: store of earlier checkpoints.
    :param scale: the parallelism that a running driver is asked for, None before the first request, and always
        without a cluster.
    :param give_up: ends the process at once with this termination message; called if the main thread hangs.
    :param jvm_status: waits that number of seconds for the exit status of the driver's JVM; None while it runs, or if
        it is unknown.
    :param pods_log: file in which Spark has why its executors' pods were refused; None where nobody reads it.
    :param on_completed: called with each completed checkpoint; for benches.
    """

    store: CheckpointStore
    retained: RetainedStore
    write_report: Callable[[str], None]
    open_session: Callable[[], Spark]
    close_session: Callable[[Spark], None]
    folder: Path
    stateful_allowed: bool
    credentials: Path
    activation: Activation | None = None
    takes_over: bool = False
    scale: Callable[[], Scale | None] | None = None
    give_up: Callable[[Termination], None] = field(default=lambda _: None)
    jvm_status: Callable[[float], int | None] = field(default=lambda _: None)
    pods_log: Path | None = None
    on_completed: Callable[[Completed], None] = field(default=lambda _: None)
