"""Producers of lost subtasks: nobody else ends their transactions while Spark has no place for the next task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.errors import CheckpointConflict, CheckpointError

LOG = logging.getLogger(__name__)

LOST_SECONDS = 10.0
"""From the loss of a subtask. Spark starts a lost worker's task again within a second, and an executor within ten."""
_AGAIN_SECONDS = 5.0
"""Pause after a fence that did not succeed."""

Fence = Callable[[Collection[str]], None]
"""Aborts the open transactions of ids, and fences their producers. It raises CheckpointError where it asked no broker.
After any other error it may still come to that."""


class LostProducers:
    """Fences the producers of lost subtasks, once a loss; used by the engine, in its thread.

    A fence and not an abort: the lost subtask may be frozen, and continue. An aborted transaction of a producer that is
    not fenced can become a transaction with a part of its records.

    The next task of the subtask may begin its transaction before the fence comes, which then ends that transaction. So
    nothing of the subtasks becomes final while a fence may come: see :attr:`is_settled`.
    """

    def __init__(self, fence: Fence, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fence = fence
        self._clock = clock
        self._fenced: set[int] = set()
        self._due: frozenset[str] = frozenset()
        self._may_come = False
        """Whether a broker may still do what a fence without an answer has asked."""
        self._call: Future[None] | None = None
        self._next_at = clock()

    @property
    def is_settled(self) -> bool:
        """Whether every fence that was begun is complete."""
        return not self._due

    def look(self, lost: Mapping[int, Collection[str]]) -> None:
        """Begins the fences that are due, and takes the end of the last; returns at once.

        :param lost: of each subtask that is lost for :data:`LOST_SECONDS`, the ids under which it may be writing.
        :raises CheckpointError: another attempt owns the job, or the document cannot be read at all.
        """
        self._take()
        self._fenced.intersection_update(lost)
        new = [subtask for subtask, ids in lost.items() if ids and subtask not in self._fenced]
        if self._call is not None or not (new or self._due) or self._clock() < self._next_at:
            return
        if new:
            LOG.warning("subtasks %s are lost: the transactions of their producers are aborted", new)
        self._fenced.update(new)
        self._due |= {each for subtask in new for each in lost[subtask]}
        self._next_at = self._clock() + _AGAIN_SECONDS
        self._call = run_in_background(partial(self._fence, self._due), name="fence")

    def _take(self) -> None:
        if self._call is None or not self._call.done():
            return
        ended, self._call = self._call, None
        error = ended.exception()
        if isinstance(error, CheckpointConflict) or (isinstance(error, CheckpointError) and error.fatal):
            raise error
        if error is not None:
            LOG.warning("transactions of lost subtasks may be open: %s", error)
        # Without an answer about the claim no broker was asked: what is still lost is due again.
        self._may_come = error is not None and (self._may_come or not isinstance(error, CheckpointError))
        if not self._may_come:
            self._due = frozenset()
            if error is not None:
                self._fenced.clear()
