"""The queue of jobs to reconcile: each at most once, each with at most one worker, failures with backoff.

The namespaces take turns, and none gets more workers than another that has any. A job waits for jobs of its own
namespace, and hardly for jobs of others. A job for which something has happened does not wait for those that a sweep
has queued.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping

from kafkasparkjob_operator.identity import JobKey

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 60.0


class _Lane:
    """Jobs that wait for a worker, by namespace."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[JobKey]] = {}
        self._turns: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def put(self, key: JobKey) -> None:
        waiting = self._waiting.get(key.namespace)
        if waiting is None:
            waiting = self._waiting[key.namespace] = deque()
            self._turns.append(key.namespace)
        waiting.append(key)

    def remove(self, key: JobKey) -> None:
        waiting = self._waiting[key.namespace]
        waiting.remove(key)
        if not waiting:
            del self._waiting[key.namespace]
            self._turns.remove(key.namespace)

    def take(self, workers: Mapping[str, int], may_have_another: Callable[[str], bool]) -> JobKey | None:
        """The first job of the namespace with the fewest workers; of several, of the namespace that waits longest."""
        best: str | None = None
        for namespace in self._turns:
            if not workers.get(namespace):
                best = namespace
                break
            fewer = best is None or workers[namespace] < workers[best]
            if fewer and may_have_another(namespace):
                best = namespace
        if best is None:
            return None
        self._turns.remove(best)
        waiting = self._waiting[best]
        key = waiting.popleft()
        if waiting:
            self._turns.append(best)
        else:
            del self._waiting[best]
        return key


class WorkQueue:
    """Level-triggered: adding a key means "reconcile again", however often it is added.

    Called by the handlers (:meth:`add`) and the reconciler's workers (the rest), all in one event loop.

    :param share: workers that a namespace may have at a time; None for no limit.
    """

    def __init__(self, *, share: int | None = None) -> None:
        self._share = share
        self._ready = _Lane()
        self._later = _Lane()
        self._looks: set[JobKey] = set()
        """Jobs that workers have from the second lane."""
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._dirty: dict[JobKey, _Lane] = {}
        """The lane of each job that waits, or that goes there when its worker is done."""
        self._active: dict[JobKey, float] = {}
        self._taken: dict[JobKey, float] = {}
        self._workers: Counter[str] = Counter()
        self._timers: dict[JobKey, asyncio.TimerHandle] = {}
        self._puts_off: dict[JobKey, asyncio.TimerHandle] = {}
        self._sweeps: dict[JobKey, asyncio.TimerHandle] = {}
        self._failures: dict[JobKey, int] = {}

    def __len__(self) -> int:
        return len(self._dirty)

    def add(self, key: JobKey) -> None:
        """Queues the job; where a worker has it already, it is reconciled again afterwards."""
        lane = self._dirty.get(key)
        if lane is self._ready:
            return
        if lane is self._later and key not in self._active:
            lane.remove(key)
        self._put(key, self._ready)

    def add_later(self, key: JobKey, seconds: float) -> None:
        """Queues the job after a delay, for a look that no event asks for; called by the sweep.

        While other jobs wait, one worker at a time has such a job: none of them waits for ever, and none for them.
        """
        self._cancel(self._sweeps, key)
        if seconds > 0:
            self._sweeps[key] = asyncio.get_running_loop().call_later(seconds, self._fire_later, key)
        else:
            self._fire_later(key)

    def _fire_later(self, key: JobKey) -> None:
        self._sweeps.pop(key, None)
        if key not in self._dirty:
            self._put(key, self._later)

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

    def add_when(self, key: JobKey, left: Callable[[], float] | None) -> None:
        """Queues the job when a time is over that events put off; in place of such a time of an earlier call.

        A driver's report puts its silence off. So a report costs neither a timer nor a reconcile.

        :param left: the seconds that are left, asked again when they have passed; None for never.
        """
        self._cancel(self._puts_off, key)
        if left is not None:
            self._await(key, left)

    def _await(self, key: JobKey, left: Callable[[], float]) -> None:
        seconds = left()
        if seconds > 0:
            self._puts_off[key] = asyncio.get_running_loop().call_later(seconds, self._await, key, left)
        else:
            self._puts_off.pop(key, None)
            self.add(key)

    def add_paced(self, key: JobKey, seconds: float) -> None:
        """Queues the job, at least this time after a worker last took it; for events that may come in floods."""
        taken = self._taken.get(key)
        self.add_after(key, 0 if taken is None else taken + seconds - asyncio.get_running_loop().time())

    def _fire(self, key: JobKey) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def take(self) -> JobKey:
        """The next job of the namespace whose turn it is; no other worker gets it before :meth:`done`."""
        while (key := self._next()) is None:
            await self._changed()
        if self._dirty.pop(key) is self._later:
            self._looks.add(key)
        self._active[key] = self._taken[key] = asyncio.get_running_loop().time()
        self._workers[key.namespace] += 1
        if self._ready or self._later:
            self._wake()
        return key

    def done(self, key: JobKey) -> None:
        """The worker has finished with the job."""
        self._looks.discard(key)
        if self._active.pop(key, None) is not None:
            self._workers[key.namespace] -= 1
            if not self._workers[key.namespace]:
                del self._workers[key.namespace]
        if key in self._dirty:
            self._put(key, self._dirty[key])
        self._wake()

    def _put(self, key: JobKey, lane: _Lane) -> None:
        """A job that a worker has goes into the lane behind that."""
        self._dirty[key] = lane
        if key not in self._active:
            lane.put(key)
            self._wake()

    def _next(self) -> JobKey | None:
        lanes = (self._ready, self._later) if self._looks else (self._later, self._ready)
        for lane in lanes:
            key = lane.take(self._workers, self._may_have_another_worker)
            if key is not None:
                return key
        return None

    def _may_have_another_worker(self, namespace: str) -> bool:
        mine = self._workers.get(namespace, 0)
        if self._share is not None and mine >= self._share:
            return False
        return all(mine < workers for other, workers in self._workers.items() if other != namespace)

    async def _changed(self) -> None:
        """Returns when a job was queued, or a worker has become free."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # this worker ends, and another worker takes the job
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

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
        self._taken.pop(key, None)
        for timers in (self._timers, self._puts_off, self._sweeps):
            self._cancel(timers, key)

    @staticmethod
    def _cancel(timers: dict[JobKey, asyncio.TimerHandle], key: JobKey) -> None:
        timer = timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def longest_active_seconds(self) -> float:
        """Seconds that the slowest worker has spent on its job; for the liveness probe."""
        if not self._active:
            return 0.0
        return asyncio.get_running_loop().time() - min(self._active.values())
