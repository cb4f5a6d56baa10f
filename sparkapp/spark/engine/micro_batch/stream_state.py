"""What the stream's threads share: whether a checkpoint is under way or may begin, and a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sparkapp.model.errors import KafkaSparkJobError


class StreamState:
    """Lets a stop fall between two checkpoints. Thread-safe.

    The planner and the checkpoint runner call it from Spark's threads. The engine's main thread drains and stops.

    :param settled: the restored checkpoint.
    :ivar settled: the newest completed checkpoint.
    """

    def __init__(self, settled: int) -> None:
        self.settled = settled
        self._draining = threading.Event()
        self._lock = threading.Lock()
        """Guards the four flags below."""
        self._is_planned = False
        self._is_working = False
        self._is_stopped = False
        self._is_abandoned = False
        self._failure: KafkaSparkJobError | None = None

    @property
    def draining(self) -> bool:
        """Whether a stop was asked for."""
        return self._draining.is_set()

    @property
    def stopped(self) -> bool:
        """Whether the stream stopped between two checkpoints."""
        return self._is_stopped

    @property
    def failure(self) -> KafkaSparkJobError | None:
        """The first error of the planner or of a checkpoint; None without one."""
        return self._failure

    def drain(self) -> None:
        """Asks for a stop at the next completed checkpoint. Returns at once; a signal handler may call it."""
        self._draining.set()

    def plan_checkpoint(self) -> bool:
        """Called by the planner before it fixes a checkpoint's splits.

        :returns: False in a drain: no checkpoint is planned any more.
        """
        with self._lock:
            if self.draining:
                return False
            self._is_planned = True
            return True

    def idle_work(self) -> AbstractContextManager[bool]:
        """Around the planner's write of the document between two checkpoints; False in a drain.

        The last document of a drain is written by another thread, so a stop waits for the end of this write.
        """
        return self._work(lambda: self.draining)

    def checkpoint(self) -> AbstractContextManager[bool]:
        """Around one micro-batch of the checkpoint runner; False after the stop."""
        return self._work(lambda: self._is_stopped)

    def complete(self, checkpoint_id: int) -> None:
        """The planned checkpoint is complete; called by the checkpoint runner."""
        self._is_planned = False
        self.settled = checkpoint_id

    def stop_between_checkpoints(self) -> bool:
        """Stops the stream if no checkpoint is planned or under way; the engine asks until it is.

        :returns: whether the stream is stopped. No further checkpoint begins then.
        """
        with self._lock:
            self._is_stopped = not self._is_planned and not self._is_working
            return self._is_stopped

    def abandon(self) -> None:
        """Stops the stream with a checkpoint under way, of which no task has run; errors of its end do not count."""
        with self._lock:
            self._is_stopped = self._is_abandoned = True

    @property
    def abandoned(self) -> bool:
        """Whether the stream was stopped by :meth:`abandon`."""
        return self._is_abandoned

    def fail(self, error: KafkaSparkJobError) -> None:
        """Keeps the first error: Spark carries it to the main thread as text only."""
        if not self._is_abandoned:
            self._failure = self._failure or error

    @contextmanager
    def _work(self, is_refused: Callable[[], bool]) -> Iterator[bool]:
        with self._lock:
            refused = is_refused()
            if not refused:
                self._is_working = True
        try:
            yield not refused
        finally:
            if not refused:
                with self._lock:
                    self._is_working = False
