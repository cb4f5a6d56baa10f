"""Open transactions and their time: people are warned at half and at 80 %, by the look that the metrics have, too."""

from __future__ import annotations

import pytest

from sparkapp.model.job.sections.sink import Sink
from sparkapp.sink.ending.orphans import OpenNow
from sparkapp.spark.reporting.transaction_time import TransactionTime


def sink(seconds: int = 100) -> Sink:
    return Sink(topic="t", transactional_id_prefix="p", transaction_timeout_seconds=seconds)


def test_half_and_eighty_percent_are_reported_once_each_and_taken_back_at_the_end() -> None:
    now = [1000.0]
    time = TransactionTime(sink(), now=lambda: now[0])
    assert time.reached(OpenNow(count=0, oldest_start_millis=None)) is None
    warnings = []
    for second in range(0, 100, 10):
        now[0] = 1000.0 + second
        reached = time.reached(OpenNow(count=2, oldest_start_millis=1_000_000))
        if reached is not None:
            warnings.append((second, reached.percent))
            assert "after 100 s" in reached.message
    assert warnings == [(50, 50), (80, 80)]
    assert time.reached(None) is None, "no answer of the coordinators is no news"
    reached = time.reached(OpenNow(count=0, oldest_start_millis=None))
    assert reached is not None
    assert (reached.percent, reached.message) == (0, "")


@pytest.mark.parametrize(
    ("millis", "remedy"),
    [(0, "or lower spec.source.limits.maxOffsetsPerCheckpoint"), (60, "or lower spec.checkpoint.commitIntervalMillis")],
)
def test_the_remedy_is_one_that_the_pace_of_commits_takes(millis: int, remedy: str) -> None:
    time = TransactionTime(sink(), commit_interval_millis=millis, now=lambda: 1060.0)
    reached = time.reached(OpenNow(count=1, oldest_start_millis=1_000_000))
    assert reached is not None
    assert reached.message.endswith(f"raise spec.sink.transactions.timeoutSeconds, {remedy}")


def test_what_has_no_time_out_runs_out_of_none() -> None:
    time = TransactionTime(sink(0), now=lambda: 9e9)
    assert time.reached(OpenNow(count=1, oldest_start_millis=0)) is None
