"""A clock of the test's own."""

from __future__ import annotations


class FakeClock:
    """In place of ``time.monotonic``. Only the test moves it, and :meth:`sleep`.

    :ivar slept: seconds of each sleep.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
