"""An attempt that comes up beside another one, and waits until it is its turn.

The operator starts such a successor while the present attempt still runs (``spec.restartPolicy.successor``). All that
takes time and touches nothing of the job is done meanwhile: JVM, executors, their Python, imports.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from pyspark.sql import SparkSession

from sparkapp.model.deadline import Deadline
from sparkapp.spark.session import has_executors, load_workers

LOG = logging.getLogger(__name__)

_EXECUTORS_SECONDS = 60.0
"""Where none comes there is perhaps no room beside the present attempt's: they come when that one is gone."""
_PAUSE = 0.2
"""How long a stop may be overlooked."""


class Turn(Protocol):
    """What tells whose turn it is."""

    def announce(self) -> None:
        """The attempt is prepared; must not raise, for it is only waited for in vain then."""
        ...

    def wait(self, seconds: float) -> bool:
        """Blocks until the turn is given or the time is over; whether it is given."""
        ...


def await_turn(turn: Turn, session: SparkSession, *, tasks: int, stopped: Callable[[], bool]) -> bool:
    """Blocks until the attempt may go on; called by the driver before it touches anything of the job.

    :param tasks: how many run at a time, each with a Python worker.
    :param stopped: asked again and again; True ends the wait.
    :returns: False where it was ended.
    """
    over = Deadline.after(_EXECUTORS_SECONDS)
    given = False
    while not (given or stopped() or has_executors(session) or over.expired):
        given = turn.wait(_PAUSE)
    if not (given or stopped()) and has_executors(session):
        # Beside the wait: where its executors are deleted with it, an attempt that is stopped would load for ever.
        loading = threading.Thread(target=load_workers, args=(session, tasks), name="load-workers", daemon=True)
        loading.start()
        while loading.is_alive() and not stopped():
            loading.join(_PAUSE)
    if not (given or stopped()):
        LOG.info("prepared; awaits its turn")
        turn.announce()
    while not (given or stopped()):
        given = turn.wait(_PAUSE)
    return not stopped()
