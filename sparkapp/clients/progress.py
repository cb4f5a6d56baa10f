"""Work as a number that only grows, by which a watchdog tells a long step from a step that stands still."""

from __future__ import annotations


class Progress:
    """Counts files, folders and answers; threads may miss a count of another.

    :ivar done: so far.
    """

    def __init__(self) -> None:
        self.done = 0

    def count(self) -> None:
        """One more is done; called where the work is."""
        self.done += 1


UNWATCHED = Progress()
"""For callers whose time nobody limits."""
