"""Deadlines, on a clock of the test's own."""

from __future__ import annotations

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import InvalidArgument
from tests.support.clock import FakeClock


def test_a_deadline_runs_down_and_stays_expired():
    clock = FakeClock(100.0)
    deadline = Deadline.after(10, clock=clock)
    assert (deadline.remaining, deadline.expired, deadline.bound(3)) == (10, False, 3)
    clock.now += 8
    assert (deadline.remaining, deadline.expired, deadline.bound(3)) == (2, False, 2)
    clock.now += 8
    assert (deadline.remaining, deadline.expired, deadline.bound(3)) == (0, True, 0)


def test_no_time_at_all_is_expired_at_once():
    assert Deadline.after(0, clock=FakeClock()).expired


def test_a_deadline_in_the_past_is_refused():
    with pytest.raises(InvalidArgument):
        Deadline.after(-1)


def test_pauses_grow_up_to_the_longest_and_end_with_the_deadline():
    clock = FakeClock(100.0)
    pauses = Deadline.after(10, clock=clock).pauses(1, 3)
    assert [next(pauses) for _ in range(4)] == [1, 2, 3, 3]
    clock.now += 9.5
    assert next(pauses) == 0.5
