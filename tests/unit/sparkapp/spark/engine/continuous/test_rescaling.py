"""Another number of subtasks for the running attempt: when the boundary is written, and executors are released."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.report import Scale
from sparkapp.spark.engine.continuous import rescaling as module
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.rescaling import Rescaling
from sparkapp.spark.tasks.control_channel import SubtaskChannel
from sparkapp.spark.tasks.work import decode_work
from tests.support.patience import until


class Subtasks:
    """The jobs of Spark, whose tasks the test plays."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.waves = [count]

    @property
    def next_wave(self) -> int:
        return len(self.waves)

    def start(self, count: int) -> None:
        self.waves.append(count)
        self.count = count


class Rig:
    """Two subtasks over a real control server. No checkpoint runs.

    :ivar boundaries: each parallelism that was written.
    :ivar kept: how many executors were to stay, for each release.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = ControlServer("127.0.0.1")
        self.subtasks = Subtasks(2)
        self.boundaries: list[int] = []
        self.kept: list[int] = []
        self._scale: Scale | None = None
        self._channels = ExitStack()
        monkeypatch.setattr(module, "request_executors", lambda *_: None)
        monkeypatch.setattr(module, "release_executors", lambda *_, used, keep: self.kept.append(keep))
        parts: Any = {
            "spark": None, "subtasks": self.subtasks, "report": lambda **_: None, "places": lambda count: count,
            "pipeline": SimpleNamespace(oldest=None, rescale=self.boundaries.append),
        }  # fmt: skip
        self.rescaling = Rescaling(2, wanted=lambda: self._scale, server=self.server, **parts)

    def connect(self, subtask: int, *, task: int, wave: int = 0) -> SubtaskChannel:
        channel = SubtaskChannel(self.server.address, subtask=subtask, task=task, wave=wave)
        return self._channels.enter_context(channel)

    def ask(self, parallelism: int) -> None:
        """Two looks of the engine: the boundary, and what is behind it."""
        self._scale = Scale(parallelism=parallelism, executors=parallelism)
        self.look()
        self.look()

    def look(self) -> None:
        self.rescaling.advance()

    def close(self) -> None:
        self._channels.close()
        self.server.close()


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    made = Rig(monkeypatch)
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
