"""Finds a watch that has silently stopped: a look at the API server shows a version that the watch never told of."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafkasparkjob_operator.identity import JobKey


class WatchMonitor:
    """Compares what the watch of the jobs has told with what live looks show.

    Called by the handlers (:meth:`told`), the reconciler (:meth:`looked`) and the liveness probe. Versions that are not
    numbers are not compared: nothing is suspected without proof.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[JobKey, int] = {}
        self._behind: dict[JobKey, tuple[int, float]] = {}
        self._last_event = clock()

    @property
    def last_event_age_seconds(self) -> float:
        """Since any watch has told anything; on its own no sign of a fault, a quiet cluster has no events."""
        return self._clock() - self._last_event

    def any_event(self) -> None:
        self._last_event = self._clock()

    def told(self, key: JobKey, version: str) -> None:
        """The watch has told of this version of the job."""
        self.any_event()
        number = _number(version)
        self._told[key] = max(number, self._told.get(key, 0))
        if key in self._behind and number >= self._behind[key][0]:
            del self._behind[key]

    def looked(self, key: JobKey, version: str) -> None:
        """A live look has shown this version."""
        number = _number(version)
        if number > self._told.get(key, 0) and key not in self._behind:
            self._behind[key] = (number, self._clock())

    def forget(self, key: JobKey) -> None:
        self._told.pop(key, None)
        self._behind.pop(key, None)

    def behind_seconds(self) -> float:
        """How long the watch has owed us the oldest change that we know of; 0 where it owes nothing."""
        if not self._behind:
            return 0.0
        return self._clock() - min(since for _, since in self._behind.values())


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else 0
