"""The proof of an end in the background, for as long as it takes (ADR 68)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import wait

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import KafkaSparkJobError, KafkaUnreachable

LOG = logging.getLogger(__name__)

_TRY_SECONDS = 10.0
_PAUSE = 1.0


class BackgroundProof:
    """Begins at once, and tries again and again until :meth:`close`; made behind each commit.

    :param prove: returns when it is proven; its errors are tried again.
    :param proven: called behind it, in the proof's thread.
    """

    def __init__(self, prove: Callable[[Deadline], None], *, proven: Callable[[], None] = lambda: None) -> None:
        self._prove = prove
        self._proven = proven
        self._closed = threading.Event()
        self._problem = "the partitions' leaders have not told in time whether the last commits are in their logs"
        self._future = run_in_background(self._run, name="prove-commit")

    @property
    def is_open(self) -> bool:
        """Whether the ids may not be used again yet."""
        return not self._future.done() or self._future.exception() is not None

    def require(self, deadline: Deadline) -> None:
        """Waits for the proof.

        :raises KafkaUnreachable: it takes longer, and why.
        """
        if not wait([self._future], timeout=deadline.remaining).done:
            raise KafkaUnreachable(self._problem)
        self._future.result()

    def close(self) -> None:
        """Ends the tries; the next producer of the id begins with a proof."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._prove(Deadline.after(_TRY_SECONDS))
            except KafkaSparkJobError as error:
                LOG.warning("a commit is not proven yet: %s", error.message)
                self._problem = error.message
                self._closed.wait(_PAUSE)
            else:
                self._proven()
                return
        raise KafkaUnreachable(self._problem)
