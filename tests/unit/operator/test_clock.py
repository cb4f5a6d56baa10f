"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafkasparkjob_operator.clock import format_time, parse_time

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_times_are_read_back() -> None:
    assert parse_time(format_time(NOON)) == NOON
    assert parse_time("2026-11-21T12:00:00.123456Z") == NOON + timedelta(microseconds=123456)
    assert [parse_time(each) for each in (None, "", "yesterday", 7)] == [None] * 4
