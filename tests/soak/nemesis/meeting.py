"""Where the stories of a round wait for each other, so that one outage strikes all of them at their moments."""

from __future__ import annotations

import threading


class Meeting:
    """Made for a round.

    :param seats: how many stories are expected.
    """

    def __init__(self, seats: int) -> None:
        self._changed = threading.Condition()
        self._expected = seats
        self._waiting = 0
        self._is_released = threading.Event()
        self._is_over = threading.Event()

    def await_all(self, seconds: float) -> int:
        """Waits until every story has come to its moment or never will, or until the time is up.

        :returns: how many are at their moments.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting >= self._expected, timeout=seconds)
            return self._waiting

    def release(self) -> None:
        """The stories continue from their moments."""
        self._is_released.set()

    def end(self) -> None:
        """The outage is over, or does not take place."""
        self._is_released.set()
        self._is_over.set()

    def await_end(self, seconds: float) -> None:
        """Waits until the outage is over."""
        assert self._is_over.wait(seconds), "the outage does not end"

    def _arrive(self) -> None:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
        self._is_released.wait()

    def _absent(self) -> None:
        with self._changed:
            self._expected -= 1
            self._changed.notify_all()


class Seat:
    """A story's place in a meeting: it arrives once, or is absent."""

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting
        self.arrived = self._is_given_up = False

    def arrive(self) -> None:
        """Waits for the outage; at once where it is under way or over."""
        if not (self.arrived or self._is_given_up):
            self.arrived = True
            self._meeting._arrive()

    def give_up(self) -> None:
        """The story does not come to its moment, or has been there."""
        if not (self.arrived or self._is_given_up):
            self._is_given_up = True
            self._meeting._absent()

    def await_end(self, seconds: float) -> None:
        """Waits until the outage is over; the others do not wait for this story meanwhile."""
        self.give_up()
        self._meeting.await_end(seconds)
