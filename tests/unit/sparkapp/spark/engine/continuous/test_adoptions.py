"""Which subtasks count as lost, and who does their work."""

from __future__ import annotations

import pytest

from sparkapp.model.errors import SubtaskMissing
from sparkapp.spark.engine.continuous.adoptions import (
    ADOPT_SECONDS,
    LOSSES_SECONDS,
    MOST_LOSSES,
    START_SECONDS,
    Adoptions,
    SubtaskLosses,
)


class Rig:
    """Subtasks on a clock of the test; all of them have work until it is answered."""

    def __init__(self, count: int) -> None:
        self.now = 100.0
        self.adoptions = Adoptions(clock=lambda: self.now)
        self.working = set(range(count))
        self.connected: set[int] = set()

    def connect(self, subtask: int) -> None:
        self.adoptions.connect(subtask)
        self.connected.add(subtask)

    def lose(self, subtask: int) -> None:
        self.connected.discard(subtask)
        self.adoptions.lose(subtask)

    def answer(self, subtask: int) -> None:
        self.working.discard(subtask)
        self.adoptions.end(subtask)

    def chosen_within(self, seconds: float) -> dict[int, int]:
        """Looks several times a second, as the engine does, until somebody adopts."""
        for _ in range(round(10 * seconds)):
            self.now += 0.1
            if chosen := self.adoptions.choose(self.working, self.connected):
                return chosen
        return {}


def test_a_subtask_that_never_connects_is_adopted() -> None:
    rig = Rig(2)
    assert rig.chosen_within(60) == {}, "nobody is connected"
    rig.connect(0)
    assert rig.chosen_within(60) == {}, "it has work of its own"
    rig.answer(0)
    assert rig.chosen_within(1) == {1: 0}
    rig.answer(1)
    rig.working = {0, 1}
    rig.answer(0)
    assert rig.chosen_within(1) == {1: 0}, "in the next checkpoint at once"


def test_subtasks_that_connect_one_after_another_at_a_start_keep_their_work() -> None:
    rig = Rig(3)
    assert rig.chosen_within(60) == {}
    rig.connect(0)
    rig.answer(0)
    assert rig.chosen_within(START_SECONDS - 1) == {}
    rig.connect(1)
    rig.answer(1)
    assert rig.chosen_within(START_SECONDS - 1) == {}, "2 may come soon, as 1 did"
    assert rig.chosen_within(2).keys() == {2}


def test_a_task_that_starts_again_does_not_hold_up_an_adoption() -> None:
    rig = Rig(2)
    rig.connect(0)
    rig.answer(0)
    for _ in range(round(START_SECONDS)):
        assert rig.chosen_within(0.9) == {}
        rig.lose(0)
        rig.connect(0)
    assert rig.chosen_within(2) == {1: 0}


@pytest.mark.parametrize("is_adopted", [False, True])
def test_only_a_subtask_that_may_have_written_is_lost(is_adopted: bool) -> None:
    rig = Rig(2)
    rig.connect(0)
    if is_adopted:
        rig.answer(0)
    rig.chosen_within(2 * START_SECONDS)
    rig.lose(0)
    rig.now += START_SECONDS
    assert rig.adoptions.lost(START_SECONDS) == ({0, 1} if is_adopted else {0})


def test_a_subtask_that_is_back_is_not_adopted() -> None:
    rig = Rig(2)
    rig.connect(0)
    rig.connect(1)
    rig.answer(0)
    rig.lose(1)
    assert rig.chosen_within(ADOPT_SECONDS - 0.2) == {}
    rig.connect(1)
    assert rig.chosen_within(60) == {}


def test_a_subtask_may_be_lost_again_and_again_but_not_too_often() -> None:
    now = 0.0
    losses = SubtaskLosses(clock=lambda: now)
    for _ in range(3 * MOST_LOSSES):
        now += LOSSES_SECONDS / (MOST_LOSSES - 2)  # seven in the time, and the eighth is older
        losses.add(0)
        losses.add(1)
        losses.require_few()
    now += LOSSES_SECONDS + 1
    for _ in range(MOST_LOSSES):
        losses.require_few()
        losses.add(1)
    with pytest.raises(SubtaskMissing, match="subtask 1 was lost 8 times within 10 minutes"):
        losses.require_few()
    now += LOSSES_SECONDS + 1
    losses.require_few()
