"""An attempt that comes up beside another one: what it waits for, and what ends the wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparkapp.spark import turn as module
from sparkapp.spark.turn import await_turn


@dataclass
class Told:
    """A turn that is given after so many waits."""

    after: int
    announced: int = 0
    waits: int = 0
    on_wait: Callable[[], None] = field(default=lambda: None)

    def announce(self) -> None:
        self.announced += 1

    def wait(self, seconds: float) -> bool:
        assert seconds > 0
        self.waits += 1
        self.on_wait()
        return self.waits >= self.after


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Executors are there, and what they load is noted."""
    calls: list[int] = []
    monkeypatch.setattr(module, "has_executors", lambda _: True)
    monkeypatch.setattr(module, "load_workers", lambda _, tasks: calls.append(tasks))
    return calls


def spark() -> Any:
    return object()


def test_prepared_it_says_so_and_waits(loaded: list[int]) -> None:
    turn = Told(after=3)
    assert await_turn(turn, spark(), tasks=2, stopped=lambda: False)
    assert (loaded, turn.announced, turn.waits) == ([2], 1, 3)


def test_a_turn_that_comes_before_the_executors_is_taken(monkeypatch: pytest.MonkeyPatch, loaded: list[int]) -> None:
    monkeypatch.setattr(module, "has_executors", lambda _: False)
    turn = Told(after=2)
    assert await_turn(turn, spark(), tasks=2, stopped=lambda: False)
    assert (loaded, turn.announced) == ([], 0)


def test_without_executors_it_says_so_after_a_while(monkeypatch: pytest.MonkeyPatch, loaded: list[int]) -> None:
    """There may be no room for them as long as the present attempt has its own."""
    monkeypatch.setattr(module, "has_executors", lambda _: False)
    monkeypatch.setattr(module, "_EXECUTORS_SECONDS", 0.0)
    turn = Told(after=1)
    assert await_turn(turn, spark(), tasks=2, stopped=lambda: False)
    assert (loaded, turn.announced) == ([], 1), "loading would wait for them for ever"


def test_a_stop_ends_the_wait(loaded: list[int]) -> None:
    stops: list[bool] = []
    turn = Told(after=100, on_wait=lambda: stops.append(True))
    assert not await_turn(turn, spark(), tasks=2, stopped=lambda: bool(stops))
    assert turn.waits == 1


def test_a_stop_ends_the_loading_of_workers_that_never_come(monkeypatch: pytest.MonkeyPatch, loaded: list[int]) -> None:
    """The operator deletes the executors with the attempt, and Spark asks for others."""
    stopped, released = threading.Event(), threading.Event()

    def load(_: object, tasks: int) -> None:
        stopped.set()
        released.wait(60)

    monkeypatch.setattr(module, "load_workers", load)
    turn = Told(after=100)
    assert not await_turn(turn, spark(), tasks=2, stopped=stopped.is_set)
    assert turn.announced == 0
    released.set()
