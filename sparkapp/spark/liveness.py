"""Liveness by progress: an attempt whose stream thread stands still ends, with a reason of its own.

No part of the driver can be relied on to return then: the JVM, Py4J or librdkafka may be what hangs. So a thread that
calls none of them counts the time, and the process is ended from there.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparkapp.model.errors import StreamStalled
from sparkapp.model.job import Sink, TransactionTimeout
from sparkapp.model.semantic import Semantic

LOG = logging.getLogger(__name__)

STREAM_SECONDS = 120.0
"""Spark's stream thread asks for the next plan several times a second; the longest pause of a collector is shorter."""
PLAN_SECONDS = 300.0
"""Each question to the brokers gives up after 20 s, a group's change after its own time-outs."""
MAX_STEP_SECONDS = 3600.0
"""Of a checkpoint that no transaction's time-out bounds."""
_AFTER_TIMEOUT_SECONDS = 60.0
"""The brokers abort what has timed out within seconds; the attempt then ends with the brokers' reason."""
TICK_SECONDS = 1.0


def step_seconds(sink: Sink) -> float:
    """How long a checkpoint may take: a transaction that times out cannot be committed anyway."""
    if sink.semantic is not Semantic.EXACTLY_ONCE or sink.transaction_timeout is TransactionTimeout.NEVER:
        return MAX_STEP_SECONDS
    return sink.transaction_timeout_seconds + _AFTER_TIMEOUT_SECONDS


class StreamLiveness:
    """What the stream is doing, since when, and for how long that may take. Thread-safe.

    Called by the engine at each step; read by the watchdog.
    """

    def __init__(self) -> None:
        self._step = ("the start of the query", PLAN_SECONDS)
        self._count = 0

    def enter(self, what: str, seconds: float) -> None:
        """The stream begins another step.

        :param seconds: after which it stands still.
        """
        self._step = (what, seconds)
        self._count += 1

    @contextmanager
    def during(self, what: str, seconds: float) -> Iterator[None]:
        """A step; Spark's stream thread has its turn after it."""
        self.enter(what, seconds)
        try:
            yield
        finally:
            self.enter("Spark's stream thread", STREAM_SECONDS)

    @property
    def step(self) -> tuple[int, str, float]:
        """Number, name and bound in seconds of the present step."""
        return (self._count, *self._step)


class Watchdog:
    """A daemon thread from the start of the query until :meth:`close`.

    :param suspended: True while nothing can progress for a reason that is reported elsewhere (no executor has come).
    :param stalled: ends the attempt; called once, in the watchdog's thread.
    """

    def __init__(
        self,
        liveness: StreamLiveness,
        *,
        stalled: Callable[[StreamStalled], None],
        suspended: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._liveness = liveness
        self._stalled = stalled
        self._suspended = suspended
        self._clock = clock
        self._closed = threading.Event()
        self._seen, self._seconds, self._at = -1, 0.0, clock()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def tick(self) -> StreamStalled | None:
        """Counts the time of the present step; what to end the attempt with, where it has taken too long.

        Time in which this thread did not run does not count: a frozen process has had no chance to progress.
        """
        now = self._clock()
        elapsed, self._at = min(now - self._at, 2 * TICK_SECONDS), now
        count, what, bound = self._liveness.step
        if count != self._seen or self._suspended():
            self._seen, self._seconds = count, 0.0
            return None
        self._seconds += elapsed
        if self._seconds <= bound:
            return None
        msg = f"the stream has made no progress for {self._seconds:.0f} s in: {what}"
        error = StreamStalled(msg)
        error.detail = _stacks()
        return error

    def _run(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            error = self.tick()
            if error is not None:
                LOG.error("%s\n%s", error.message, error.detail)
                self._stalled(error)
                return


def _stacks() -> str:
    """The innermost frames of all Python threads, the main thread last."""
    names = {one.ident: one.name for one in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        lines = "".join(traceback.format_stack(frame)[-3:])
        parts.append((ident == threading.main_thread().ident, f"thread {names.get(ident, ident)}:\n{lines}"))
    return "".join(text for _, text in sorted(parts))
