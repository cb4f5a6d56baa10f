"""Whether Spark has the executors that an engine needs. An engine that waits for executors is not stalled."""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkapp.clients.deadline import Deadline
from sparkapp.spark.launch.session import Spark, had_executors, has_executors, has_places

_PAUSE = 0.1
"""Seconds between two looks while the first executor is awaited."""

_COUNT_SECONDS = 10.0
"""Seconds between two counts of a running engine."""

_BELIEVED_SECONDS = 60.0
"""How long a count is believed: counts are late on a busy machine, and none follows where Py4J hangs."""


class ExecutorPresence:
    """Made by each engine.

    :param is_over: whether the engine needs no executor any more: it stops, or has ended.
    :param tasks: that must run at the same time.
    :param needed: whether the engine can get no further without another place; a count asks it.
    :ivar tasks: as the parameter; a rescale in place changes it.
    """

    def __init__(
        self,
        spark: Spark,
        *,
        is_over: Callable[[], bool],
        tasks: int = 1,
        needed: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._is_over = is_over
        self.tasks = tasks
        self._needed = needed
        self._clock = clock
        self._count_at = clock()
        self._lacked_at: float | None = None
        self._has_run = False

    @property
    def lacking(self) -> bool:
        """Whether the executors had too few places at the last count, which was some seconds ago; from any thread.

        An older count says nothing: the engine stands still, and its watchdog must see that.
        """
        lacked_at = self._lacked_at
        return lacked_at is not None and self._clock() < lacked_at + _BELIEVED_SECONDS

    @property
    def has_run(self) -> bool:
        """Whether an executor has ever been registered, so that a task may have run. Asks Spark until it has."""
        self._has_run = self._has_run or had_executors(self._spark)
        return self._has_run

    def await_first(self, seconds: float) -> None:
        """Blocks until an executor is registered, the engine is over or the time is; called by the attempt."""
        deadline = Deadline.after(seconds)
        while not (has_executors(self._spark) or self._is_over() or deadline.expired):
            time.sleep(deadline.bound(_PAUSE))

    def count(self) -> None:
        """Counts if the last count is old; called by the engine in its loop."""
        if self._clock() >= self._count_at:
            lacks = self._needed() and not has_places(self._spark, self.tasks)
            now = self._clock()
            self._lacked_at, self._count_at = now if lacks else None, now + _COUNT_SECONDS
