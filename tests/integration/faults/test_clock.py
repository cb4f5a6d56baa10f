"""Where a wrong wall clock does show: brokers look at the time that a record has from its writer's node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from sparkapp.model.errors import PreCommitFailed
from tests.support.jobs.sink_harness import Harness
from tests.support.kafka.topic_scope import TopicScope


def batch(value: int, time: datetime) -> pa.RecordBatch:
    times = pa.array([time], pa.timestamp("ms", "UTC"))
    return pa.RecordBatch.from_pydict({"value": [str(value).encode()], "timestamp": times})


def test_records_of_a_clock_that_is_ahead_are_refused_and_written_once_it_is_right(
    harness: Callable[..., Harness], topic_scope: TopicScope
) -> None:
    """The brokers' default allows an hour (``message.timestamp.after.max.ms``)."""
    right = datetime.now(UTC)
    first = harness().open()
    first.write_batch(batch(1, right + timedelta(hours=2)))
    with pytest.raises(PreCommitFailed) as caught:
        first.snapshot(1)
    assert "clock" in caught.value.remedy
    second = harness().open()
    second.write_batch(batch(1, right))
    second.snapshot(1)
    second.notify(1)
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("jump", [timedelta(minutes=50), -timedelta(hours=1)])
def test_records_of_a_clock_that_is_less_than_an_hour_ahead_or_behind_are_taken(
    jump: timedelta, harness: Callable[..., Harness], topic_scope: TopicScope
) -> None:
    attempt = harness().open()
    attempt.write_batch(batch(1, datetime.now(UTC) + jump))
    attempt.snapshot(1)
    attempt.notify(1)
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []
