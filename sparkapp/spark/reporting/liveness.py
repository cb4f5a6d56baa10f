"""Liveness by progress: ends an attempt that makes none, from its first check on, with the reason StreamStalled.

The JVM, Py4J or librdkafka may hang, so no call to them can be trusted to return. A thread that calls none of them
counts the time and ends the process.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.model.errors import StreamStalled
from sparkapp.model.job.sections.sink import Sink

LOG = logging.getLogger(__name__)

STREAM_SECONDS = 120.0
"""Spark's stream thread asks for the next plan several times a second. No pause of a garbage collector is so long."""
PLAN_SECONDS = 300.0
"""Longest plan: each request to the brokers gives up after 20 s, a rebalance after its own time-outs."""
MAX_STEP_SECONDS = 3600.0
"""Longest checkpoint without a transaction time-out."""
_AFTER_TIMEOUT_SECONDS = 60.0
"""Added to the transaction time-out. The brokers abort within seconds, and the attempt ends with their reason."""
START_SECONDS = 300.0
"""Longest step of a start, and longest plan. Recovery has this time for each answer of a coordinator, and
for each file of state that it copies."""
CODE_SECONDS = 900.0
"""Longest run of the user's code in a start: a module may load a model, and a transform may read a table."""
TICK_SECONDS = 1.0
_MOST_PROGRESS = 1_000_000
"""Answers of coordinators in a recovery that are told apart."""


def step_seconds(sink: Sink) -> float:
    """Longest checkpoint in seconds: a transaction that timed out cannot be committed."""
    if not sink.delivery_guarantee.transactional or not sink.transactions_expire:
        return MAX_STEP_SECONDS
    return sink.transaction_timeout_seconds + _AFTER_TIMEOUT_SECONDS


class StreamLiveness:
    """The present step of a start or of a stream, and how long it may take. Thread-safe.

    The driver and the engine enter each step; the watchdog reads it.
    """

    def __init__(self) -> None:
        self._step = ("the start of the query", PLAN_SECONDS)
        self._count = 0
        self._progress = _none

    def enter(self, what: str, seconds: float, *, progress: Callable[[], int] | None = None) -> None:
        """A step begins.

        :param what: the step's name, for the error.
        :param seconds: that the step may take, or that it may take without progress.
        :param progress: a number that only grows, by which the step shows its progress; must not block.
        """
        self._step, self._progress = (what, seconds), progress or _none
        self._count += 1

    @contextmanager
    def during(self, what: str, seconds: float) -> Iterator[None]:
        """A step of the engine; Spark's stream thread runs after it."""
        self.enter(what, seconds)
        try:
            yield
        finally:
            self.enter("Spark's stream thread", STREAM_SECONDS)

    @property
    def step(self) -> tuple[tuple[int, int], str, float]:
        """Number and progress, name and bound in seconds of the present step."""
        return ((self._count, self._progress()), *self._step)


def _none() -> int:
    return 0


class Watchdog:
    """A daemon thread from the first check of an attempt until :meth:`close`.

    :param stalled: ends the attempt; called once, in the watchdog's thread.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self, *, stalled: Callable[[StreamStalled], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._own = StreamLiveness()
        self._subject: tuple[StreamLiveness, Callable[[], bool]] = (self._own, _never)
        self._stalled = stalled
        self._clock = clock
        self._seen: object = None
        self._seconds, self._at = 0.0, clock()
        self._thread = PeriodicThread(self._look, name="watchdog", interval=TICK_SECONDS)

    def enter(self, what: str, seconds: float, *, progress: Callable[[], int] | None = None) -> None:
        """A step of the start or of the end of an attempt begins; parameters of :meth:`StreamLiveness.enter`."""
        self._own.enter(what, seconds, progress=progress)
        self._subject = (self._own, _never)

    def watch(self, liveness: StreamLiveness, *, suspended: Callable[[], bool] = lambda: False) -> None:
        """From now on the steps are those of an engine.

        :param suspended: True while the stream cannot progress for a reason that is reported elsewhere (no executor).
        """
        self._subject = (liveness, suspended)

    @property
    def steps(self) -> int:
        """A number that changes with each step of the start and the end, and with progress in a step."""
        (count, progress), _, _ = self._own.step
        return count * _MOST_PROGRESS + min(progress, _MOST_PROGRESS - 1)

    def start(self) -> None:
        """Starts the thread; called by the driver before the first step."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; called at the end of the attempt."""
        self._thread.close()

    def tick(self) -> StreamStalled | None:
        """Counts the time of the present step.

        Time in which this thread did not run does not count: a frozen process cannot progress.

        :returns: the error of a step that took too long; else None.
        """
        now = self._clock()
        elapsed, self._at = min(now - self._at, 2 * TICK_SECONDS), now
        liveness, suspended = self._subject
        count, what, bound = liveness.step
        if (liveness, count) != self._seen or suspended():
            self._seen, self._seconds = (liveness, count), 0.0
            return None
        self._seconds += elapsed
        if self._seconds <= bound:
            return None
        who = "attempt" if liveness is self._own else "stream"
        msg = f"the {who} made no progress for {self._seconds:.0f} s: it was in {what}"
        error = StreamStalled(msg)
        error.detail = _stacks()
        return error

    def _look(self) -> None:
        error = self.tick()
        if error is not None:
            LOG.error("%s\n%s", error.message, error.detail)
            self._stalled(error)
            self._thread.close()


def _never() -> bool:
    return False


def _stacks() -> str:
    """The innermost frames of all Python threads, the main thread last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        lines = "".join(traceback.format_stack(frame)[-3:])
        parts.append((ident == threading.main_thread().ident, f"thread {names.get(ident, ident)}:\n{lines}"))
    return "".join(text for _, text in sorted(parts))
