"""Cron schedules against a search through every minute, for any expression, moment and time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkasparkjob_operator.workload.cron import MACROS, PATTERN, schedule_of
from sparkapp.model.errors import ConfigurationError

DAYS = 4
"""As far as every minute is searched."""
MINUTE = timedelta(minutes=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def field(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """A field's text, and its numbers as they are written out."""
    number = st.integers(low, high)
    every = frozenset(range(low, high + 1))
    stepped = st.integers(1, high).map(lambda step: (f"*/{step}", frozenset(range(low, high + 1, step))))
    ranged = st.tuples(number, number).map(sorted).flatmap(
        lambda ends: st.integers(1, 9).map(
            lambda step: (f"{ends[0]}-{ends[1]}/{step}", frozenset(range(ends[0], ends[1] + 1, step)))
        )
    )  # fmt: skip
    single = number.map(lambda value: (str(value), frozenset({value})))
    opened = number.map(lambda value: (f"{value}/5", frozenset(range(value, high + 1, 5))))
    part = st.one_of(st.just(("*", every)), stepped, ranged, single, opened)
    return st.lists(part, min_size=1, max_size=3).map(
        lambda parts: (",".join(text for text, _ in parts), frozenset().union(*(numbers for _, numbers in parts)))
    )


expressions = st.tuples(*(field(*bounds) for bounds in BOUNDS))
moments = st.integers(0, 5 * 365 * 24 * 60).map(lambda each: datetime(2024, 1, 1, tzinfo=UTC) + each * MINUTE)
around_a_change = st.integers(-1500, 1500).map(lambda each: datetime(2026, 10, 25, 1, tzinfo=UTC) + each * MINUTE)


def wanted(moment: datetime, expression: tuple[tuple[str, frozenset[int]], ...], zone: str) -> bool:
    """Whether the expression names the minute, by the rules of cron."""
    local = moment.astimezone(ZoneInfo(zone))
    (_, minutes), (_, hours), (day_text, days), (_, months), (week_text, weekdays) = expression
    free_day, free_week = (any(part in {"*", "*/1"} for part in text.split(",")) for text in (day_text, week_text))
    by_day, by_week = local.day in days, local.isoweekday() % 7 in weekdays
    right_day = by_day or by_week if not free_day and not free_week else by_day and by_week
    return local.minute in minutes and local.hour in hours and local.month in months and right_day


@given(expressions, st.one_of(moments, around_a_change), st.sampled_from(ZONES))
def test_last_and_following_are_what_a_search_of_all_minutes_finds(
    expression: tuple[tuple[str, frozenset[int]], ...], now: datetime, zone: str
) -> None:
    text = " ".join(each for each, _ in expression)
    try:
        schedule = schedule_of(text, zone)
    except ConfigurationError as error:
        assert "none of its months" in error.message  # noqa: PT017 - the only reason for a well-formed expression
        return
    minute = now.replace(second=0, microsecond=0)
    last, following = schedule.last(now), schedule.following(now)
    for found in (last, following):
        assert wanted(found, expression, zone)
        assert found.second == 0
    assert last <= now < following
    for count in range(DAYS * 24 * 60):
        earlier, later = minute - count * MINUTE, minute + (count + 1) * MINUTE
        assert earlier <= last or not wanted(earlier, expression, zone), earlier
        assert later >= following or not wanted(later, expression, zone), later
        if earlier <= last and later >= following:
            break


@given(expressions)
def test_the_api_server_lets_every_expression_through(expression: tuple[tuple[str, frozenset[int]], ...]) -> None:
    text = " ".join(each for each, _ in expression)
    assert re.fullmatch(PATTERN, text)


@given(st.from_regex(re.compile(PATTERN, re.ASCII), fullmatch=True))
@example("@DAILY")
@example("0 0 * jan-DEC sun,MON")
def test_what_the_api_server_lets_through_has_times_or_a_reason(text: str) -> None:
    try:
        schedule = schedule_of(text.rstrip("\n"))
    except ConfigurationError as error:
        assert "ends before it begins" in error.message or "none of its months" in error.message  # noqa: PT017
        return
    now = datetime(2026, 11, 29, 12, 30, 15, tzinfo=UTC)
    assert schedule.last(now) <= now < schedule.following(now)


@given(st.text(max_size=30))
def test_any_other_text_is_refused_with_the_field(text: str) -> None:
    if text.lower() in MACROS or len(text.split()) == len(BOUNDS):
        return
    with pytest.raises(ConfigurationError, match=re.escape("spec.snapshots.schedule")):
        schedule_of(text)
