"""The queue of jobs to reconcile: each at most once, each with at most one worker, failures with backoff."""

from __future__ import annotations

import asyncio

from kafkasparkjob_operator.identity import JobKey

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 60.0


class WorkQueue:
    """Level-triggered: adding a key means "reconcile again", however often it is added.

    Called by the handlers (:meth:`add`) and the reconciler's workers (the rest), all in one event loop.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[JobKey] = asyncio.Queue()
        self._dirty: set[JobKey] = set()
        self._active: dict[JobKey, float] = {}
        self._timers: dict[JobKey, asyncio.TimerHandle] = {}
        self._failures: dict[JobKey, int] = {}

    def __len__(self) -> int:
        return len(self._dirty)

    def add(self, key: JobKey) -> None:
        """Queues the job; where a worker has it already, it is reconciled again afterwards."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._active:
            self._ready.put_nowait(key)

    def add_after(self, key: JobKey, seconds: float) -> None:
        """Queues the job after a delay; the shorter of two delays counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._fire, key)

    def _fire(self, key: JobKey) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def take(self) -> JobKey:
        """The next job; no other worker gets it before :meth:`done`."""
        key = await self._ready.get()
        self._dirty.discard(key)
        self._active[key] = asyncio.get_running_loop().time()
        return key

    def done(self, key: JobKey) -> None:
        """The worker has finished with the job."""
        self._active.pop(key, None)
        if key in self._dirty:
            self._ready.put_nowait(key)

    def failed(self, key: JobKey) -> float:
        """Queues the job after a pause that doubles with every consecutive failure.

        :returns: the pause in seconds.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failures, 16))
        self.add_after(key, pause)
        return float(pause)

    def succeeded(self, key: JobKey) -> None:
        """Resets the count of failures."""
        self._failures.pop(key, None)

    def forget(self, key: JobKey) -> None:
        """The job is gone."""
        self._failures.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def longest_active_seconds(self) -> float:
        """Seconds that the slowest worker has spent on its job; for the liveness probe."""
        if not self._active:
            return 0.0
        return asyncio.get_running_loop().time() - min(self._active.values())
