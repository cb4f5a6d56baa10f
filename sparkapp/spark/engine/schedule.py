"""When a checkpoint is due, and the splits that it reads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.spec import Job
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator

_IDLE_PROBE_SECONDS = (0.01, 0.25)
"""Shortest and longest pause between two questions to the brokers while a checkpoint is due without new records.

Between these bounds it is a tenth of the interval.
"""

_IDLE_SECONDS = 10.0
"""A job without a checkpoint for this long is idle: it removes settled committables from the document, once.

After every pause between records it would be a second write for each checkpoint.
"""


class CheckpointSchedule:
    """Plans one checkpoint after another; asked by an engine's planner between two checkpoints, from one thread.

    :param lead: seconds before a checkpoint is due in which it may be planned: its subtasks read until its barrier.
    :param alone_until: the moment until which a checkpoint that becomes final has the processors for itself. None is
        planned before, unless it is due.
    :param idle_work: around the write of an idle job's document; False where it may not be written any more.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self,
        job: Job,
        *,
        enumerator: KafkaSourceEnumerator,
        coordinator: CheckpointCoordinator,
        idle_work: Callable[[], AbstractContextManager[bool]],
        lead: float = 0.0,
        alone_until: Callable[[], float] = lambda: -math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = job.spec.checkpoint_interval
        self._cap = job.spec.source.max_offsets_per_checkpoint
        self._enumerator = enumerator
        self._coordinator = coordinator
        self._idle_work = idle_work
        self._lead = lead
        self._alone_until = alone_until
        self._clock = clock
        self._look_at = self._due = self._planned_at = self._barrier_at = clock()

    @property
    def seconds_left(self) -> float:
        """Seconds until :meth:`next_splits` asks the brokers again; 0 where it would now."""
        return max(0.0, self._next_look - self._clock())

    @property
    def seconds_to_barrier(self) -> float:
        """Seconds until the last planned checkpoint is due; 0 where it was or is."""
        return max(0.0, self._barrier_at - self._clock())

    def next_splits(self, *, owes_batch: bool = False) -> tuple[KafkaPartitionSplit, ...] | None:
        """The splits of the next checkpoint, one a known partition; None while none is due or there is no record.

        :param owes_batch: a checkpoint is wanted also without records.
        :raises KafkaSparkJobError: of the enumerator or the coordinator.
        """
        now = self._clock()
        if now < self._next_look:
            return None
        self._enumerator.discover_if_due()
        splits = self._enumerator.plan()
        if not any(split.size for split in splits) and not owes_batch:
            shortest, longest = _IDLE_PROBE_SECONDS
            self._look_at = now + max(shortest, min(longest, self._interval / 10))
            if now - self._planned_at > _IDLE_SECONDS:
                self._write_idle_document()
            return None
        # A backlog of more records than a checkpoint may have is read without pauses.
        is_capped = sum(split.size for split in splits) >= self._cap
        # Checkpoints may end before they are due. No barrier is farther away than the interval even so.
        self._barrier_at = now if is_capped else min(max(now, self._due), now + self._interval)
        self._due = self._barrier_at if is_capped else self._barrier_at + self._interval
        self._look_at = self._due - self._lead
        self._planned_at = now
        return splits

    @property
    def _next_look(self) -> float:
        return max(self._look_at, min(self._due, self._alone_until()))

    def _write_idle_document(self) -> None:
        with self._idle_work() as allowed:
            if allowed:
                self._coordinator.forget_settled()
                self._coordinator.renew()
