"""A missing subtask: Spark owes it a place, or the attempt waits for an executor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.errors import SubtaskMissing
from sparkapp.spark.engine.continuous.places import MISSING_SECONDS, WAIT_SECONDS, SubtaskPlaces


class Rig:
    """Two subtasks on a clock of the test.

    :param count: with those that a rescale adds.
    """

    def __init__(self, count: int = 2) -> None:
        self.now = 100.0
        self.connected = {0, 1}
        self.executors: Any = SimpleNamespace(lacking=False, count=lambda: None)
        self.waits: list[set[int]] = []
        announcements: Any = SimpleNamespace(subtasks_wait=self.waits.append)
        self.places = SubtaskPlaces(
            count, present=lambda: 2, connected=lambda: self.connected, executors=self.executors,
            announcements=announcements, clock=lambda: self.now,
        )  # fmt: skip

    def check_after(self, seconds: float) -> None:
        """Checks several times a second, as the engine does."""
        for _ in range(round(2 * seconds)):
            self.now += 0.5
            self.places.check()

    def has_places(self, places: int) -> None:
        """The executors run so many tasks at the same time."""

        def count() -> None:
            self.executors.lacking = self.executors.tasks > places

        self.executors.count = count

    def freeze(self, seconds: float) -> None:
        """The driver stands still."""
        self.now += seconds


def test_a_subtask_that_has_a_place_must_come() -> None:
    rig = Rig()
    rig.check_after(1000)
    rig.connected = {1}
    rig.check_after(MISSING_SECONDS - 1)
    rig.connected = {0, 1}
    rig.check_after(0.5)
    rig.connected = {0}
    rig.check_after(MISSING_SECONDS)
    with pytest.raises(SubtaskMissing, match=r"no task of subtasks \[1\] has reached the driver for 120 s"):
        rig.check_after(1)
    assert rig.waits == []


def test_time_without_a_place_does_not_count_and_is_reported() -> None:
    rig = Rig()
    rig.check_after(0.5)
    rig.connected, rig.executors.lacking = {0}, True
    rig.check_after(WAIT_SECONDS)
    assert rig.waits == []
    rig.check_after(10 * MISSING_SECONDS)
    assert rig.waits[-1] == {1}
    rig.executors.lacking = False
    rig.check_after(MISSING_SECONDS)
    with pytest.raises(SubtaskMissing):
        rig.check_after(1)


def test_time_in_which_the_driver_stood_still_does_not_count() -> None:
    """Its subtasks have given it up, and Spark has had no time to start them again."""
    rig = Rig()
    rig.check_after(1)
    rig.freeze(10 * MISSING_SECONDS)
    rig.connected = set()
    rig.check_after(MISSING_SECONDS - 5)
    rig.connected = {0, 1}
    rig.check_after(1)
    assert rig.waits == []


def test_a_rescale_without_room_does_not_hide_that_a_present_subtask_is_missing() -> None:
    """Two places: subtask 0 does not come, and there is none for subtasks 2 and 3."""
    rig = Rig(4)
    rig.has_places(2)
    rig.check_after(WAIT_SECONDS + 1)
    assert rig.waits[-1] == {2, 3}
    rig.connected = {1}
    rig.check_after(MISSING_SECONDS)
    with pytest.raises(SubtaskMissing, match=r"no task of subtasks \[0\] has reached"):
        rig.check_after(1)


def test_an_added_subtask_may_have_the_place_of_a_present_subtask() -> None:
    rig = Rig(4)
    rig.has_places(2)
    rig.connected = {1, 2}
    rig.check_after(10 * MISSING_SECONDS)
    assert rig.waits[-1] == {0}
