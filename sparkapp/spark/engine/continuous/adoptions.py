"""Lost subtasks, and the connected subtasks that do their work until Spark has a place for them again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection

from sparkapp.model.errors import SubtaskMissing

ADOPT_SECONDS = 0.5
"""From the loss of a subtask to its adoption: where only its Python worker is lost, its task is soon back."""

START_SECONDS = 10.0
"""The same for a subtask that has never connected, from its first work or from the last subtask that did connect. The
executors of a start are ready within some seconds of each other."""


MOST_LOSSES, LOSSES_SECONDS = 8, 600.0
"""Losses of one subtask in so much time that end the attempt. Spark starts a lost subtask again for ever."""


class SubtaskLosses:
    """The recent losses of each subtask. Owned by the control server, which changes it under its lock.

    Its connection has ended, or was closed because it fell silent. Eight silences in so short a time are not a node
    that froze and thawed.

    :param clock: monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lost_at: dict[int, deque[float]] = {}
        self._new: set[int] = set()

    def add(self, subtask: int) -> None:
        """A subtask was lost without a request to end."""
        self._lost_at.setdefault(subtask, deque(maxlen=MOST_LOSSES)).append(self._clock())
        self._new.add(subtask)

    def taken(self) -> set[int]:
        """The subtasks that were lost since the last call; called by a pace that knows their progress."""
        # Not by replacing the set: the server's threads add to it meanwhile.
        return {self._new.pop() for _ in range(len(self._new))}

    def require_few(self) -> None:
        """Called by the engine, often.

        :raises SubtaskMissing: a subtask was lost :data:`MOST_LOSSES` times in the last :data:`LOSSES_SECONDS`.
        """
        since = self._clock() - LOSSES_SECONDS
        for subtask, lost_at in tuple(self._lost_at.items()):
            if len(lost_at) == MOST_LOSSES and lost_at[0] >= since:
                msg = f"subtask {subtask} was lost {MOST_LOSSES} times within {LOSSES_SECONDS / 60:g} minutes"
                raise SubtaskMissing(msg)


class Adoptions:
    """Owned by the control server, which calls it under its lock.

    :param clock: monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lost_at: dict[int, float] = {}
        self._awaited_at: dict[int, float] = {}
        """Since when subtasks without a writer are expected to connect: neither they nor an adopter has written."""
        self._adopters: dict[int, int] = {}

    @property
    def adopted(self) -> set[int]:
        """Subtasks whose present work another does."""
        return set(self._adopters)

    @property
    def adopters(self) -> set[int]:
        """Subtasks that do the work of others."""
        return set(self._adopters.values())

    def writer_of(self, subtask: int) -> int:
        """The subtask that does its present work: its adopter, or itself."""
        return self._adopters.get(subtask, subtask)

    def lose(self, subtask: int) -> tuple[int, ...]:
        """The connection of a subtask ended; returns the subtasks that it had adopted."""
        self._lost_at.setdefault(subtask, self._clock())
        orphans = tuple(other for other, adopter in self._adopters.items() if adopter == subtask)
        for orphan in orphans:
            del self._adopters[orphan]
        return orphans

    def connect(self, subtask: int) -> None:
        """A subtask is connected. A first connection restarts the wait for subtasks that have never been connected."""
        self._awaited_at.pop(subtask, None)
        if self._lost_at.pop(subtask, None) is None:
            self._awaited_at = dict.fromkeys(self._awaited_at, self._clock())

    def lost(self, seconds: float) -> set[int]:
        """The subtasks that have been lost for these seconds; without those that have never had a writer."""
        now = self._clock()
        return {subtask for subtask, lost_at in self._lost_at.items() if now - lost_at >= seconds}

    def end(self, subtask: int) -> None:
        """The work of a subtask is answered, or it has none any more."""
        self._adopters.pop(subtask, None)

    def choose(self, working: Collection[int], connected: Collection[int]) -> dict[int, int]:
        """Adopters for lost subtasks that have had none, by subtask. An adopter has nothing else to do.

        :param working: subtasks with work that is not answered.
        """
        now, chosen = self._clock(), {}
        unseen = [subtask for subtask in working if subtask not in connected and subtask not in self._lost_at]
        self._awaited_at = dict.fromkeys(unseen, now) | self._awaited_at
        idle = [other for other in connected if other not in working and other not in self._adopters.values()]
        for subtask in working:
            if idle and self._is_due(subtask, now) and subtask not in self._adopters:
                chosen[subtask] = self._adopters[subtask] = idle.pop()
                if self._awaited_at.pop(subtask, None) is not None:
                    self._lost_at[subtask] = now  # its adopter may leave open what it writes
        return chosen

    def _is_due(self, subtask: int, now: float) -> bool:
        lost_at, awaited_at = self._lost_at.get(subtask), self._awaited_at.get(subtask)
        is_lost = lost_at is not None and now - lost_at >= ADOPT_SECONDS
        return is_lost or (awaited_at is not None and now - awaited_at >= START_SECONDS)
