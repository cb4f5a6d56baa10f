"""Calls of the local pace's coordinator, so that subtasks are served while the API server is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.errors import CheckpointStoreUnavailable

LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
"""Pause after a write that the API server did not answer."""


class CoordinatorCalls:
    """One call at a time, in a thread of its own; used by the driver of the local pace, in its thread.

    :param ended: called when a call has ended, in the call's thread.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._call: tuple[Future[Any], Callable[[Any], None]] | None = None
        self._next_at = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way, and the answer of the last is applied."""
        return self._call is None

    @property
    def takes_next(self) -> bool:
        """Whether the next call may begin."""
        return self.is_idle and time.monotonic() >= self._next_at

    def begin(self, ask: Callable[[], Any], apply: Callable[[Any], None]) -> None:
        """Begins a call; called while :attr:`takes_next`.

        :param apply: gets the answer, in the driver's thread.
        """
        future = run_in_background(ask, name="local-coordinator")
        future.add_done_callback(lambda _: self._ended())
        self._call = future, apply

    def finish(self) -> None:
        """Applies the answer of a call that has ended; called often. A write without an answer is due again.

        :raises KafkaSparkJobError: of the coordinator.
        """
        if self._call is None or not self._call[0].done():
            return
        (future, apply), self._call = self._call, None
        try:
            answer = future.result()
        except CheckpointStoreUnavailable as error:
            LOG.warning("the subtasks continue, and the write is tried again: %s", error.message)
            self._next_at = time.monotonic() + AGAIN_SECONDS
        else:
            apply(answer)

    def wait(self) -> None:
        """Waits for the end of a call; its answer is not applied."""
        if self._call is not None:
            wait([self._call[0]])
