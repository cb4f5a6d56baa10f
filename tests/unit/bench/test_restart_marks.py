"""Phases of a restart from what was seen of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.restart import marks
from bench.restart.marks import (
    concurrent,
    free_again,
    longest_silence,
    marks_of_log,
    marks_of_pods,
    moment_of,
    phases,
)
from bench.restart.restarts import Kind, Restart, Restarts
from sparkapp.model import names
from sparkapp.spark.wiring.start import LOG as RECOVERY
from sparkapp.spark.wiring.wiring import LOG as WIRING

_LINES = """\
2026-11-21T12:00:01.000000001Z Picked up JAVA_TOOL_OPTIONS
2026-11-21T12:00:01.250000000Z {"time": "x", "level": "INFO", "logger": "__main__", "message": "attempt 2 of ns/job begins"}
2026-11-21T12:00:02.500000000Z {"time": "x", "level": "INFO", "logger": "RECOVERY", "message": "recovered checkpoint 7: committed 2 transactions"}
2026-11-21T12:00:03Z {"time": "x", "level": "INFO", "logger": "WIRING", "message": "reading 2 partitions: t-0 at 5, t-1 at 0"}
2026-11-21T12:00:05Z {"time": "x", "level": "INFO", "logger": "sparkapp.spark.launch.session", "message": "Spark 4.3.0 is up"}
2026-11-21T12:00:06.5Z {"time": "x", "level": "INFO", "logger": "sparkapp.spark.engine.micro_batch.query", "message": "columns read from Kafka: key, value"}
2026-11-21T12:00:07Z {"time": "x", "level": "INFO", "logger": "sparkapp.spark.attempt", "message": "the MicroBatch engine has started"}
2026-11-21T12:00:10Z {"time": "x", "level": "INFO", "logger": "sparkapp.spark.attempt", "message": "checkpoint 8: 5 offsets in, 2 transactions, 2500 ms (write 9 ms, commit 250 ms)"}
2026-11-21T12:00:11Z {"time": "x", "level": "INFO", "logger": "sparkapp.spark.attempt", "message": "checkpoint 9: 5 offsets in, 2 transactions, 90 ms (write 9 ms, commit 25 ms)"}
"""  # noqa: E501
LOG = _LINES.replace("RECOVERY", RECOVERY.name).replace("WIRING", WIRING.name).splitlines()
NOON = 1795262400.0


def test_marks_of_a_log_are_those_of_the_first_lines_that_have_them() -> None:
    found = marks_of_log(LOG)
    assert {name: round(at - NOON, 3) for name, at in found.items()} == {
        marks.BEGUN: 1.25, marks.RECOVERED: 2.5, marks.PLACED: 3.0, marks.SPARK_UP: 5.0, marks.PLANNED: 6.5,
        marks.STARTED: 7.0, marks.FIRST_BATCH: 7.5, marks.DECIDED: 9.75,
    }  # fmt: skip


def test_a_log_without_stamps_has_its_own_times() -> None:
    assert moment_of('{"time": "2026-11-21T14:00:01.250+02:00", "message": "y"}') == NOON + 1.25
    assert moment_of("2026-11-21T14:00:01.25+02:00 y") == NOON + 1.25
    assert moment_of("Picked up JAVA_TOOL_OPTIONS") is None


def pod(name: str, *, attempt: int, role: str, state: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": names.labels("job", attempt=attempt, role=role)},
        "status": {"containerStatuses": [{"state": {state: {}}}]} if state else {},
    }


def test_marks_of_pods() -> None:
    previous, new = names.driver_pod("job", 1), names.driver_pod("job", 2)
    seen = [
        (1.0, pod(previous, attempt=1, role="driver", state="running")),
        (2.0, pod("job-1-exec-1", attempt=1, role="executor", state="running")),
        (3.0, pod(previous, attempt=1, role="driver", state="terminated")),
        (4.0, pod(previous, attempt=1, role="driver", state="terminated")),
        (5.0, pod(new, attempt=2, role="driver")),
        (6.0, pod(new, attempt=2, role="driver", state="waiting")),
        (7.0, pod(new, attempt=2, role="driver", state="running")),
        (8.0, pod("job-2-exec-1", attempt=2, role="executor")),
        (9.0, pod("job-2-exec-1", attempt=2, role="executor", state="running")),
        (9.5, pod("job-2-exec-2", attempt=2, role="executor", state="running")),
    ]
    assert marks_of_pods(seen, "job", 1, 2) == {
        marks.ENDED: 3.0, marks.CREATED: 5.0, marks.RUNNING: 7.0, marks.EXECUTOR_CREATED: 8.0,
        marks.EXECUTOR_RUNNING: 9.0,
    }  # fmt: skip


def test_a_phase_takes_the_seconds_of_marks_that_nobody_saw() -> None:
    found = phases({marks.ASKED: 10.0, marks.RUNNING: 13.0, marks.FLOWING: 20.0, marks.RECOVERED: 15.0})
    assert found == {marks.RUNNING: 3.0, marks.FLOWING: 7.0}
    assert phases({}) == {}


@given(st.dictionaries(st.sampled_from(marks.CHAIN), st.floats(0, 1000), min_size=1))
def test_phases_add_up_and_none_is_negative(found: dict[str, float]) -> None:
    seconds = phases(found)
    first = next(found[name] for name in marks.CHAIN if name in found)
    assert all(phase >= 0 for phase in seconds.values())
    assert sum(seconds.values()) == pytest.approx(max(found[name] for name in marks.CHAIN if name in found) - first)


def test_seconds_of_concurrent_marks_count_from_the_start() -> None:
    assert concurrent({marks.ASKED: 10.0, marks.RECOVERED: 12.5, marks.RUNNING: 11.0}) == {marks.RECOVERED: 2.5}


def test_offsets_are_free_when_all_that_the_previous_attempt_wrote_can_be_passed() -> None:
    samples = [
        (0.0, {0: 10, 1: 20}, {0: 15, 1: 20}),
        # It writes for a moment after the signal: these records are held back, too.
        (1.0, {0: 10, 1: 20}, {0: 18, 1: 25}),
        (6.0, {0: 10, 1: 20}, {0: 18, 1: 25}),
        (7.0, {0: 19, 1: 20}, {0: 19, 1: 25}),
        # The next attempt has an open transaction, which does not count.
        (8.0, {0: 19, 1: 26}, {0: 30, 1: 40}),
    ]
    assert free_again(samples, begun=6.5) == 8.0
    assert free_again(samples[:4], begun=6.5) is None, "not free as long as anybody looked"


def test_offsets_were_never_held_where_nothing_was_left_open() -> None:
    assert free_again([(0.0, {0: 10}, {0: 12}), (1.0, {0: 13}, {0: 13}), (9.0, {0: 13}, {0: 15})], begun=2.0) is None
    assert free_again([], begun=2.0) is None


def test_silence_is_the_longest_gap_that_overlaps_the_window() -> None:
    assert longest_silence([0, 30, 31, 45, 46, 99], since=31.5, until=46) == 53
    assert longest_silence([0, 30, 31, 45, 46, 99], since=31.5, until=45.5) == 14
    assert longest_silence([5], since=0, until=9) == 0


def restart(kind: Kind, seconds: float, stable: float | None = None) -> Restart:
    found = {marks.ASKED: 100.0, marks.RUNNING: 101.0, marks.RECOVERED: 102.0, marks.FLOWING: 100.0 + seconds}
    return Restart(kind=kind, attempt=2, marks=found, silence=seconds + 1, stable_seconds=stable)


def test_the_summary_counts_each_kind_apart_and_only_open_transactions() -> None:
    all_of_them = Restarts(
        [restart(Kind.KILL, 8, 3), restart(Kind.RESCALE, 5), restart(Kind.KILL, 12), restart(Kind.KILL, 9, 4)]
    )
    body = all_of_them.as_json()
    assert body["summary"] == {
        "kill to flowing": {"count": 3, "p50": 9, "p95": 12, "max": 12, "goal": 10},
        "silence of a kill": {"count": 3, "p50": 10, "p95": 13, "max": 13, "goal": 10},
        "last stable offset free": {"count": 2, "p50": 3.5, "p95": 4, "max": 4, "goal": 10},
        "rescale to flowing": {"count": 1, "p50": 5, "p95": 5, "max": 5, "goal": 10},
        "silence of a rescale": {"count": 1, "p50": 6, "p95": 6, "max": 6, "goal": 10},
    }
    assert body["restarts"][0]["phases"] == {marks.RUNNING: 1.0, marks.FLOWING: 7.0}
    assert body["restarts"][0]["concurrent"] == {marks.RECOVERED: 2.0}
    text = all_of_them.tables()
    assert "rescale: seconds until" in text
    assert text.count(marks.RECOVERED) == 2
