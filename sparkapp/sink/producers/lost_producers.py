"""Producers of lost subtasks: nobody else ends their transactions while Spark has no place for the next task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.model.errors import KafkaSparkJobError

LOG = logging.getLogger(__name__)

LOST_SECONDS = 10.0
"""From the loss of a subtask. Spark starts a lost worker's task again within a second, and an executor within ten."""
_AGAIN_SECONDS = 10.0
"""Pause after a fence that did not succeed."""

Fence = Callable[[Collection[str]], None]
"""Aborts the open transactions of ids, and fences their producers; raises a KafkaSparkJobError where it did not."""


class LostProducers:
    """Fences the producers of lost subtasks, once a loss; used by the engine, in its thread.

    A fence and not an abort: the lost subtask may be frozen, and continue. An aborted transaction of a producer that is
    not fenced can become a transaction with a part of its records.

    The next task of the subtask opens its producer in any case. Where the fence comes behind that, the task fails, and
    tries again.
    """

    def __init__(self, fence: Fence, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fence = fence
        self._clock = clock
        self._fenced: set[int] = set()
        self._call: Future[None] | None = None
        self._again_at = clock()

    def look(self, lost: Mapping[int, Collection[str]]) -> None:
        """Begins the fences that are due; returns at once.

        :param lost: of each subtask that is lost for :data:`LOST_SECONDS`, the ids under which it may be writing.
        """
        self._fenced.intersection_update(lost)
        due = [subtask for subtask, ids in lost.items() if ids and subtask not in self._fenced]
        if not due or self._clock() < self._again_at or (self._call is not None and not self._call.done()):
            return
        ids = [each for subtask in due for each in lost[subtask]]
        LOG.warning("subtasks %s are lost: the transactions of their producers are aborted", due)
        self._fenced.update(due)
        self._call = run_in_background(partial(self._end, ids, due), name="fence")

    def _end(self, ids: Collection[str], subtasks: Collection[int]) -> None:
        try:
            self._fence(ids)
        except KafkaSparkJobError as error:
            LOG.warning("transactions of lost subtasks may be open: %s", error.message)
            self._again_at = self._clock() + _AGAIN_SECONDS
            self._fenced.difference_update(subtasks)
