"""A point in time after which an operation is given up; every wait on the network is bounded by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkapp.model.errors import InvalidArgument

Clock = Callable[[], float]
"""Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Made once at the start of an operation and handed down, so that retries share one budget.

    :param at: reading of the clock after which :attr:`expired` is true.
    :param clock: injected by tests; never the wall clock, which may jump.
    """

    at: float
    clock: Clock = time.monotonic

    @classmethod
    def after(cls, seconds: float, *, clock: Clock = time.monotonic) -> Deadline:
        """The deadline ``seconds`` from now.

        :raises InvalidArgument: where ``seconds`` is negative.
        """
        if seconds < 0:
            msg = f"a deadline lies in the future: {seconds} s"
            raise InvalidArgument(msg)
        return cls(clock() + seconds, clock)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - self.clock())

    @property
    def expired(self) -> bool:
        return self.remaining <= 0.0

    def bound(self, seconds: float) -> float:
        """``seconds``, or what is left where that is less: the length of one wait inside the operation."""
        return min(seconds, self.remaining)

    def pauses(self, first: float, longest: float) -> Iterator[float]:
        """The waits between retries, each twice the last up to ``longest``, and bounded by what is left."""
        while True:
            yield self.bound(first)
            first = min(2 * first, longest)
