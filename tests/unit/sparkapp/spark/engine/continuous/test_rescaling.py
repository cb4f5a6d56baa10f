"""Another number of subtasks for the running attempt: when the boundary is written, and executors are released."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from sparkapp.model.report import Scale
from sparkapp.spark.engine.continuous import adoptions
from sparkapp.spark.engine.continuous import rescaling as module
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.rescaling import Rescaling
from sparkapp.spark.tasks.control_channel import SubtaskChannel
from sparkapp.spark.tasks.control_frames import Work, decode_work
from sparkapp.spark.tasks.write_task import WriteOrder
from tests.support.patience import PATIENCE, until


class Subtasks:
    """The jobs of Spark, whose tasks the test plays.

    :ivar looks: at withdrawn jobs: the number of subtasks, and those that end.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.waves = [count]
        self.looks: list[tuple[int, set[int]]] = []

    @property
    def next_wave(self) -> int:
        return len(self.waves)

    def start(self, count: int) -> None:
        self.waves.append(count)
        self.count = count

    def withdraw(self, count: int) -> None:
        self.count = count

    def cancel_withdrawn(self, ending: set[int]) -> None:
        self.looks.append((self.count, ending))


class Pipeline:
    """No checkpoint runs.

    :ivar boundaries: each parallelism that was written.
    """

    oldest = None

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.boundaries: list[int] = []

    def rescale(self, parallelism: int) -> None:
        self.boundaries.append(parallelism)
        self.parallelism = parallelism


class Rig:
    """Subtasks over a real control server, two at first.

    :ivar boundaries: see :class:`Pipeline`.
    :ivar kept: how many executors were to stay, for each release.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int = 2) -> None:
        self.server = ControlServer("127.0.0.1")
        self.subtasks = Subtasks(count)
        pipeline = Pipeline(count)
        self.boundaries = pipeline.boundaries
        self.kept: list[int] = []
        self._scale: Scale | None = None
        self._channels = ExitStack()
        monkeypatch.setattr(module, "request_executors", lambda *_: None)
        monkeypatch.setattr(module, "release_executors", lambda *_, used, keep: self.kept.append(keep))
        parts: Any = {
            "spark": None, "subtasks": self.subtasks, "report": lambda **_: None, "places": lambda count: count,
            "pipeline": pipeline,
        }  # fmt: skip
        self.rescaling = Rescaling(wanted=lambda: self._scale, server=self.server, **parts)

    def connect(self, subtask: int, *, task: int, wave: int = 0) -> SubtaskChannel:
        channel = SubtaskChannel(self.server.address, subtask=subtask, task=task, wave=wave)
        return self._channels.enter_context(channel)

    def ask(self, parallelism: int, *, looks: int = 2) -> None:
        """Two looks of the engine: the boundary, and what is behind it."""
        self._scale = Scale(parallelism=parallelism, executors=parallelism)
        for _ in range(looks):
            self.look()

    def look(self) -> None:
        self.rescaling.advance()

    def close(self) -> None:
        self._channels.close()
        self.server.close()


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = Rig(monkeypatch, *([request.param] if hasattr(request, "param") else []))
    yield made
    made.close()


def test_down_and_up_again_waits_for_the_task_of_the_next_wave(rig: Rig) -> None:
    rig.connect(0, task=1)
    old = rig.connect(1, task=2)
    until(lambda: rig.server.connected == {0, 1})
    rig.ask(1)
    assert decode_work(old.receive_body()) is None
    rig.ask(2)
    assert rig.subtasks.waves == [2, 2]
    assert rig.boundaries == [1], "the task that ends is none of the next parallelism"
    rig.connect(1, task=3, wave=1)
    until(lambda: rig.server.ready == {0, 1})
    rig.look()
    assert rig.boundaries == [1, 2]


def test_executors_are_released_when_no_task_is_ending(rig: Rig) -> None:
    rig.connect(0, task=1)
    old = rig.connect(1, task=2)
    until(lambda: rig.server.connected == {0, 1})
    rig.ask(1)
    rig.look()
    assert rig.kept == [], "it may still send what it has"
    old.__exit__()
    until(lambda: rig.server.connected == {0})
    rig.look()
    rig.look()
    assert rig.kept == [1]


def test_nor_while_the_next_wave_has_its_place(rig: Rig) -> None:
    rig.connect(0, task=1)
    old = rig.connect(1, task=2)
    until(lambda: rig.server.connected == {0, 1})
    rig.ask(1)
    rig.ask(2)
    rig.connect(1, task=3, wave=1)
    until(lambda: rig.server.ready == {0, 1})
    rig.look()
    rig.look()
    assert (rig.boundaries, rig.kept) == ([1, 2], [])
    old.__exit__()
    until(lambda: not rig.server.ending)
    rig.look()
    assert rig.kept == [2]


@pytest.mark.parametrize("rig", [3], indirect=True)
def test_a_boundary_downwards_does_not_wait_for_a_subtask_without_a_place(rig: Rig) -> None:
    """Subtask 1 has lost its node. Only the end of subtask 2 makes room for it."""
    rig.connect(0, task=1)
    surplus = rig.connect(2, task=3)
    until(lambda: rig.server.connected == {0, 2})
    rig.ask(2)
    assert rig.boundaries == [2]
    assert decode_work(surplus.receive_body()) is None
    surplus.__exit__()
    until(lambda: rig.server.connected == {0})
    rig.look()
    assert rig.kept == [], "the free executor is for subtask 1"
    rig.connect(1, task=4)
    until(lambda: rig.server.ready == {0, 1})
    rig.look()
    assert rig.kept == [2]


def test_nor_for_the_only_remaining_subtask(rig: Rig) -> None:
    surplus = rig.connect(1, task=2)
    until(lambda: rig.server.connected == {1})
    rig.ask(1)
    assert rig.boundaries == [1]
    assert decode_work(surplus.receive_body()) is None


@pytest.mark.parametrize("rig", [3], indirect=True)
def test_a_surplus_subtask_ends_behind_the_work_that_it_does_for_another(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoptions, "ADOPT_SECONDS", 0.0)
    rig.connect(0, task=1)
    lost, surplus = rig.connect(1, task=2), rig.connect(2, task=3)
    until(lambda: rig.server.connected == {0, 1, 2})
    lost.__exit__()
    until(lambda: rig.server.connected == {0, 2})
    rig.ask(2, looks=1)
    assert rig.boundaries == [2]
    order = WriteOrder(
        checkpoint_id=7, subtask=1, next_free=3, settled=6, writes_what_it_reads=True, ranges=(), group_id=None
    )  # fmt: skip
    rig.server.give({0: Work(order=replace(order, subtask=0), splits=()), 1: Work(order=order, splits=())})
    rig.server.adopt()
    assert decode_work(surplus.receive_body()) == Work(order=order, splits=()).again()
    rig.look()
    assert rig.server.ready == {0, 2}
    surplus.completed(7, "", subtask=1)
    assert rig.server.answer(PATIENCE) is not None
    rig.look()
    assert decode_work(surplus.receive_body()) is None


def test_only_added_subtasks_are_waited_for(rig: Rig) -> None:
    rig.connect(0, task=1)
    until(lambda: rig.server.connected == {0})
    rig.ask(3)
    assert rig.boundaries == []
    rig.connect(2, task=3, wave=1)
    until(lambda: rig.server.ready == {0, 2})
    rig.look()
    assert rig.boundaries == [3], "subtask 0 does the work of subtask 1 until it has a place"


def test_the_job_of_a_growth_may_be_cancelled_when_its_tasks_have_ended(rig: Rig) -> None:
    rig.connect(0, task=1)
    rig.connect(1, task=2)
    until(lambda: rig.server.connected == {0, 1})
    rig.ask(4)
    added = rig.connect(2, task=3, wave=1)
    until(lambda: rig.server.ready == {0, 1, 2})
    rig.ask(2)
    assert rig.subtasks.looks[-1] == (2, {2})
    added.__exit__()
    until(lambda: not rig.server.ending)
    rig.look()
    assert rig.subtasks.looks[-1] == (2, set())
    assert rig.boundaries == []
