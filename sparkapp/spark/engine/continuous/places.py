"""Fails the attempt when a subtask stays disconnected although an executor has a place for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkapp.model.errors import SubtaskMissing
from sparkapp.spark.engine.executors import ExecutorPresence
from sparkapp.spark.reporting.announcements import Announcements

MISSING_SECONDS = 120.0
"""Longest time without a subtask although the executors have a place for it.

Spark starts a task again within a second. A worker's first start takes seconds of CPU, which a busy machine has late.
"""

WAIT_SECONDS = 30.0
"""Wait for executors after which it is an event: Spark replaces a lost executor within some seconds."""

_STEP_SECONDS = 2.0
"""The most time that counts between two checks. They are a tenth of a second apart unless the driver is frozen."""


class SubtaskPlaces:
    """Made by the continuous engine, which calls :meth:`check` in its loop.

    :param count: number of subtasks, with those that a rescale adds.
    :param present: number of subtasks of the next checkpoint. Spark has a place for them before those that are added.
    :param connected: the subtasks whose connections stand.
    :param announcements: for the event about a long wait for executors.
    """

    def __init__(
        self,
        count: int,
        *,
        present: Callable[[], int],
        connected: Callable[[], set[int]],
        executors: ExecutorPresence,
        announcements: Announcements,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._all = set(range(count))
        self._present = present
        self._connected = connected
        self._executors = executors
        self._announcements = announcements
        self._clock = clock
        self._checked_at = clock()
        self._missing_seconds = self._placed_seconds = 0.0

    def check(self) -> None:
        """Counts the time in which a subtask is missing that has a place.

        Time in which the executors are too few for all subtasks does not count: the attempt waits for a pod. While a
        present subtask is missing, added subtasks are not counted among all. Time in which the driver is frozen does
        not count either. Its subtasks end meanwhile, and Spark starts them again when the driver continues.

        :raises SubtaskMissing: after :data:`MISSING_SECONDS`.
        """
        now, connected = self._clock(), self._connected()
        missing = set(range(self._present())) - connected or self._all - connected
        elapsed, self._checked_at = min(now - self._checked_at, _STEP_SECONDS), now
        if not missing:
            self._missing_seconds = self._placed_seconds = 0.0
            return
        self._missing_seconds += elapsed
        self._executors.tasks = len(connected | missing)
        self._executors.count()
        if self._executors.lacking:
            self._placed_seconds = 0.0
            if self._missing_seconds > WAIT_SECONDS:
                self._announcements.subtasks_wait(missing)
            return
        self._placed_seconds += elapsed
        if self._placed_seconds > MISSING_SECONDS:
            msg = f"no task of subtasks {sorted(missing)} has reached the driver for {MISSING_SECONDS:g} s"
            raise SubtaskMissing(msg)
