"""The jobs that restart at the moment: how many may do so at the same time.

An outage ends many attempts together, and a new version of shared code stops many. Each start creates pods, pulls an
image and asks brokers and registries. So a job waits until few enough of the others are on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkasparkjob_operator.identity import JobKey

LONGEST_SECONDS = 120.0
"""A restart that takes longer waits for something that other jobs do not have to wait for: room, an image, a broker."""


class RestartingJobs:
    """Called by the reconciler, which first asks and then tells. A process that starts knows of no restart.

    :param limit: jobs that may restart at the same time; 0 for any number.
    :param clock: monotonic seconds.
    :param wake: called with a job that waited, when another job has restarted.
    """

    def __init__(self, limit: int, *, clock: Callable[[], float], wake: Callable[[JobKey], None]) -> None:
        self._limit = limit
        self._clock = clock
        self._wake = wake
        self._since: dict[JobKey, float] = {}
        self._waiting: dict[JobKey, None] = {}

    def has_room(self, key: JobKey) -> bool:
        """Whether the job may restart now. A job that restarts already may, whatever the others do."""
        if not self._limit or key in self._since:
            return True
        now = self._clock()
        for other in [other for other, since in self._since.items() if now - since > LONGEST_SECONDS]:
            del self._since[other]
        return len(self._since) < self._limit

    def began(self, key: JobKey) -> None:
        """The job stops, or starts, for a restart."""
        self._waiting.pop(key, None)
        self._since.setdefault(key, self._clock())

    def waits(self, key: JobKey) -> None:
        """The job has found no room."""
        self._waiting[key] = None

    def ended(self, key: JobKey) -> None:
        """The job runs, or does not restart any more: the job that waits longest is woken."""
        self._waiting.pop(key, None)
        if self._since.pop(key, None) is not None and self._waiting:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            self._wake(longest)


def restarting(status: Mapping[str, Any]) -> bool:
    """Whether the status is that of a job on its way to the next attempt; not during the pause before it."""
    if status.get("restarts", {}).get("nextRetryTime"):
        return False
    return status.get("state") in {"Restarting", "Starting", "Rescaling"}
