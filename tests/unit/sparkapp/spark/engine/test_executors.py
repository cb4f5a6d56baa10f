"""Whether the watchdog is to wait for Spark's places."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.spark.engine import executors
from sparkapp.spark.engine.executors import ExecutorPresence


class Rig:
    """An engine that may need a place, and a Spark that may have it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.needs, self.has = 100.0, True, False
        monkeypatch.setattr(executors, "has_places", lambda _spark, _tasks: self.has)
        spark: Any = None
        self.presence = ExecutorPresence(
            spark, is_over=lambda: False, needed=lambda: self.needs, clock=lambda: self.now
        )  # fmt: skip

    def lacks_after(self, seconds: float) -> bool:
        self.now += seconds
        self.presence.count()
        return self.presence.lacking


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_an_engine_that_needs_a_place_lacks_it_until_spark_has_one(rig: Rig) -> None:
    assert not rig.presence.lacking, "nothing is counted yet"
    assert rig.lacks_after(0)
    rig.has = True
    assert not rig.lacks_after(20)


def test_an_engine_whose_other_subtasks_do_the_work_lacks_nothing(rig: Rig) -> None:
    assert rig.lacks_after(0)
    rig.needs = False
    assert not rig.lacks_after(20)


def test_an_executor_that_has_been_there_may_have_run_a_task(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    known = False
    monkeypatch.setattr(executors, "had_executors", lambda _: known)
    assert not rig.presence.has_run
    known = True
    assert rig.presence.has_run
    known = False
    assert rig.presence.has_run, "Spark is not asked again"


def test_a_count_is_not_believed_for_ever(rig: Rig) -> None:
    """The engine's thread hangs in Py4J: nobody counts any more, and the watchdog must see that."""
    assert rig.lacks_after(0)
    rig.now += 50
    assert rig.presence.lacking
    rig.now += 50
    assert not rig.presence.lacking
