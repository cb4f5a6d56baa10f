"""A watch that has silently stopped is found."""

from __future__ import annotations

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.watch_monitor import WatchMonitor
from tests.support.operator_bench import KEY


def test_a_watch_that_owes_a_change_is_found_and_one_that_delivers_is_not() -> None:
    time = [0.0]
    monitor = WatchMonitor(clock=lambda: time[0])
    key = JobKey("team", "a")
    monitor.told(key, "5")
    monitor.looked(key, "5")
    monitor.looked(key, "4")  # the answer to a request that the watch has overtaken
    time[0] = 100
    assert monitor.behind_seconds() == 0
    monitor.looked(key, "9")
    time[0] = 130
    assert monitor.behind_seconds() == 30
    monitor.told(key, "8")
    assert monitor.behind_seconds() == 30
    monitor.told(key, "9")
    assert monitor.behind_seconds() == 0


def test_versions_that_are_no_numbers_prove_nothing() -> None:
    monitor = WatchMonitor()
    monitor.looked(KEY, "abc")
    assert monitor.behind_seconds() == 0
