"""A driver that kills itself at a named step of a checkpoint: code of the tests, which no image has.

On a cluster it is the job's module (``transform.python.configMapRef``) and is armed by the variable ``FAULT`` of the
driver. On this machine ``python -m tests.support.jobs.faults`` runs the driver with it. An order is
``<step>@attempt=<n>,checkpoint=<n>`` with a step of :class:`sparkapp.model.protocol.ProtocolStep`. It is bound to an
attempt, so that a restart does not meet it again, and to a job with ``,job=<uid>`` behind it. Orders of several
attempts are joined by semicolons.

``scale:<file>`` gives the driver the scale that it is asked for, two numbers in a file.
``standby:<file>`` has the driver prepare next to the attempt before it, make the file, and take over when that attempt
has drained. ``start:<seconds>`` is the driver's limit of a step of its start.
``repartition:<moment>@<n>`` ends attempt n ``before`` a repartition of query state, or ``within`` it, when some
partitions are written. ``frozen`` stops its process behind it, until somebody continues it.
``hold:<file>`` makes the driver wait behind each document, before the commits, for as long as the file exists. A file
of the same name with the suffix ``.held`` says that it does.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkapp.checkpoint.claim import has_drained
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.clients.deadline import Deadline
from sparkapp.model.job.spec import Job
from sparkapp.model.protocol import ProtocolStep, StepHook
from sparkapp.model.report import Scale
from sparkapp.spark import attempt
from sparkapp.spark.engine.micro_batch import write_stage
from sparkapp.spark.engine.micro_batch.repartition import repartition
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.tasks.write_task import WriteOrder, write_partition

VARIABLE = "FAULT"
_HOLD = "hold:"
_SCALE = "scale:"
_STANDBY = "standby:"
_START = "start:"
_REPARTITION = re.compile(r"repartition:(?P<moment>before|within|frozen)@(?P<attempt>\d+)")
_FORM = re.compile(r"(?P<step>[a-z-]+)@attempt=(?P<attempt>\d+),checkpoint=(?P<checkpoint>\d+)(,job=(?P<job>\S+))?")
_HOLD_SECONDS = 60.0
_LOOK_SECONDS = 0.05
"""As a driver in a pod looks at the document."""
_KILL_AFTER_SECONDS = 4.0


def transform(frame: DataFrame) -> DataFrame:
    """Passes records through, as a job without a transform does."""
    return frame


def arm(order: str) -> None:
    """Every coordinator of this process from now on meets the fault in its attempt."""
    if order.startswith(_SCALE):
        _ask(Path(order.removeprefix(_SCALE)))
        return
    if order.startswith(_STANDBY):
        _stand_by(Path(order.removeprefix(_STANDBY)))
        return
    if order.startswith(_START):
        vars(attempt)["START_SECONDS"] = vars(attempt)["CODE_SECONDS"] = float(order.removeprefix(_START))
        return
    if cut := _REPARTITION.fullmatch(order):
        vars(attempt)["repartition"] = partial(_cut, cut["moment"], int(cut["attempt"]))
        return
    always: StepHook | None = None
    hooks: dict[int, tuple[str | None, StepHook]] = {}
    if order.startswith(_HOLD):
        always = partial(_hold, Path(order.removeprefix(_HOLD)))
    else:
        hooks = dict(map(_fault, order.split(";")))
    begin = CheckpointCoordinator.__init__

    @wraps(begin)
    def begin_with_fault(self: CheckpointCoordinator, job: Job, **parts: Any) -> None:
        uid, hook = hooks.get(job.attempt, (None, always))
        if hook is not None and uid in {None, job.uid}:
            parts["hook"] = hook
        begin(self, job, **parts)

    CheckpointCoordinator.__init__ = begin_with_fault  # type: ignore[method-assign]


def _fault(order: str) -> tuple[int, tuple[str | None, StepHook]]:
    """The attempt of an order, its job (None for each), and the hook."""
    match = _FORM.fullmatch(order)
    assert match is not None, f"{order!r} is no fault"
    fault = ProtocolStep(match["step"]), int(match["checkpoint"])
    return int(match["attempt"]), (match["job"], partial(_meet, fault))


def _cut(moment: str, number: int, spark: SparkSession, job: Job, *parts: Any) -> Any:
    """The repartition of query state, cut at a moment; ``parts`` has the query's folder as its second."""
    if job.attempt == number and moment == "before":
        _die()
    if job.attempt == number and moment == "within":
        state = parts[1].state
        known = set(state.rglob("*.zip"))
        threading.Thread(target=_die_at_the_first, args=(state, known), daemon=True).start()
        repartition(spark, job, *parts)
        time.sleep(_HOLD_SECONDS)
    made = repartition(spark, job, *parts)
    if job.attempt == number:
        os.kill(os.getpid(), signal.SIGSTOP)
    return made


def _die_at_the_first(state: Path, known: set[Path]) -> None:
    while not set(state.rglob("*.zip")) - known:
        time.sleep(0.001)
    _die()


def _ask(file: Path) -> None:
    """Annotations of the driver's pod, without a pod."""
    from sparkapp import __main__ as program

    make = program._environment

    def scale() -> Scale | None:
        return Scale(*map(int, file.read_text().split())) if file.exists() else None

    vars(program)["_environment"] = lambda *parts: replace(make(*parts), scale=scale)


def _stand_by(file: Path) -> None:
    from sparkapp import __main__ as program

    make = program._environment

    def environment(job: Job, *parts: Any) -> DriverEnvironment:
        made = make(job, *parts)
        drained = partial(has_drained, made.store, job_uid=job.uid, attempt=job.attempt)
        return replace(made, activation=_Next(file, drained), takes_over=True)

    vars(program)["_environment"] = environment


class _Next:
    """The activation of a driver that is next, without a pod: the document alone decides."""

    def __init__(self, prepared: Path, drained: Callable[[], bool]) -> None:
        self._prepared = prepared
        self._drained = drained

    def announce(self) -> None:
        self._prepared.touch()

    def wait(self, seconds: float) -> bool:
        deadline = Deadline.after(seconds)
        while not (drained := self._drained()) and not deadline.expired:
            time.sleep(deadline.bound(_LOOK_SECONDS))
        return drained


def _hold(file: Path, step: ProtocolStep, _: int) -> None:
    deadline = Deadline.after(_HOLD_SECONDS)
    while step is ProtocolStep.AFTER_WRITE and file.exists() and not deadline.expired:
        file.with_suffix(".held").touch()
        time.sleep(0.02)


def _meet(fault: tuple[ProtocolStep, int], step: ProtocolStep, checkpoint_id: int) -> None:
    if (step, checkpoint_id) != fault:
        return
    if step is ProtocolStep.BEFORE_FLUSH:
        # The writers produce and then wait, so the driver dies while their transactions are open.
        vars(write_stage)["write_partition"] = write_and_wait
        threading.Timer(_KILL_AFTER_SECONDS, _die).start()
    else:
        _die()


def write_and_wait(
    job_text: str, orders: Sequence[WriteOrder], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The write task, which waits between its last record and the flush. It runs in an executor."""
    return write_partition(job_text, orders, _then_wait(batches))


def _then_wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    time.sleep(_HOLD_SECONDS)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    from sparkapp.__main__ import main
    from tests.support.jobs import faults

    # Executors find the write task by the name of its module, which __main__ is not.
    faults.arm(os.environ[VARIABLE])
    sys.exit(main())
elif VARIABLE in os.environ and __name__ == "faults":
    arm(os.environ[VARIABLE])
