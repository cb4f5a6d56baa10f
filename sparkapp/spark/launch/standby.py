"""The wait of a standby driver for its activation.

The operator starts a standby driver while the present attempt still runs (``spec.restartPolicy.successor``). The
standby prepares what takes long and touches nothing of the job: JVM, executors, their Python, imports (ADR 19).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.spark.launch.session import Spark, has_executors, load_workers

LOG = logging.getLogger(__name__)

_EXECUTORS_SECONDS = 60.0
"""Without executors for so long the standby counts as prepared: the cluster may have no room for two attempts."""
_PAUSE = 0.2
"""Longest time in seconds until a stop is seen."""


class Activation(Protocol):
    """Tells a standby driver when it becomes the job's attempt; in a pod, annotations of that pod."""

    def announce(self) -> None:
        """The standby is prepared; must not raise. After a failed announcement the operator waits for its timeout."""
        ...

    def wait(self, seconds: float) -> bool:
        """Blocks until the activation or until the time is over; whether the standby is activated."""
        ...


def await_takeover(activation: Activation, *, ready: Callable[[], bool], stopped: Callable[[], bool]) -> bool:
    """:func:`await_activation` of a standby whose subtasks run already: it is prepared when they are ready.

    :param ready: asked several times a second; raises why they never will be.
    """
    activated = False
    while not (activated or stopped() or ready()):
        activated = activation.wait(_PAUSE)
    if not (activated or stopped()):
        LOG.info("standby is prepared with its subtasks and awaits its activation")
        activation.announce()
    while not (activated or stopped()):
        activated = activation.wait(_PAUSE)
    return activated or activation.wait(_PAUSE)


def await_activation(activation: Activation, session: Spark, *, tasks: int, stopped: Callable[[], bool]) -> bool:
    """Blocks until the standby is activated; called by the driver before it touches anything of the job.

    :param tasks: how many run at a time, each with a Python worker.
    :param stopped: asked several times a second; True ends the wait.
    :returns: False if the wait was ended before the activation. A stop does not undo an activation: the attempt is the
        job's, so it settles what the previous attempt left before it stops.
    """
    over = Deadline.after(_EXECUTORS_SECONDS)
    activated = False
    while not (activated or stopped() or has_executors(session) or over.expired):
        activated = activation.wait(_PAUSE)
    if not (activated or stopped()) and has_executors(session):
        # In a thread: when a standby is stopped, its executors are deleted first and the load never ends.
        loading = threading.Thread(target=load_workers, args=(session, tasks), name="load-workers", daemon=True)
        loading.start()
        while loading.is_alive() and not stopped():
            loading.join(_PAUSE)
    if not (activated or stopped()):
        LOG.info("standby is prepared and awaits its activation")
        activation.announce()
    while not (activated or stopped()):
        activated = activation.wait(_PAUSE)
    # A last look: the activation may have come while the JVM started, or during the load.
    return activated or activation.wait(_PAUSE)
