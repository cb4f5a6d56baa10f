"""Times by a cron expression in a time zone, with the meaning that they have in a CronJob of Kubernetes.

Five fields of lists, ranges and steps: minute, hour, day of the month, month, day of the week. Where both fields of
days are restricted, a day needs one of them. A local time that a change of the clocks leaves out does not occur, and a
repeated local time occurs twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sparkapp.model.encoding.schema import Rule
from sparkapp.model.errors import ConfigurationError

_DAY = timedelta(days=1)
_YEARS = 9
"""29 February may be eight years away."""
_LONGEST = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_NUMBER = re.compile("[0-9]{1,2}")
_STEP = re.compile("[1-9][0-9]?")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MACROS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
REMEDY = (
    "write five fields, for instance 0 3 * * 1-5 for 03:00 from Monday to Friday, or one of"
    f" {', '.join(sorted(MACROS))}; spec.snapshots.timeZone names the time zone"
)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: Mapping[str, int]
    pattern: str
    """Of a single value, for the definition."""


_FIELDS = (
    _Field("minute", 0, 59, {}, "[0-5]?[0-9]"),
    _Field("hour", 0, 23, {}, "([01]?[0-9]|2[0-3])"),
    _Field("day of the month", 1, 31, {}, "(0?[1-9]|[12][0-9]|3[01])"),
    _Field("month", 1, 12, {name: at for at, name in enumerate(MONTHS, 1)}, f"(0?[1-9]|1[0-2]|{'|'.join(MONTHS)})"),
    _Field("day of the week", 0, 6, {name: at for at, name in enumerate(WEEKDAYS)}, f"(0?[0-6]|{'|'.join(WEEKDAYS)})"),
)


def _list_pattern(value: str) -> str:
    part = f"([*?]|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{part}(,{part})*"


PATTERN = f"(?i)^({'|'.join(MACROS)}|{' +'.join(_list_pattern(each.pattern) for each in _FIELDS)})$"
CRON_RULE = Rule(
    f"self.matches('{PATTERN}')",
    "snapshots.schedule needs the five fields of a cron expression: minute 0-59, hour 0-23, day of the month 1-31,"
    " month 1-12, weekday 0-6",
)
"""The API server's. The order of a range, and days that no month has, are the operator's to judge."""
ZONE_RULE = Rule(
    "self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$') && self != 'Local'",
    "snapshots.timeZone needs a name of the IANA database, for instance Europe/Berlin",
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule. Its times are whole minutes.

    :param days: of the month; None for any. :param weekdays: 0 is Sunday; None for any.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None
    zone: ZoneInfo

    def last(self, now: datetime) -> datetime:
        """The last time of the schedule until now, now included. Called by the decisions about snapshots."""
        local = now.astimezone(self.zone)
        for day in self._days(local.date(), -_DAY):
            for hour in reversed(self.hours):
                if (day, hour) <= (local.date(), local.hour):
                    found = [each for each in self._times(day, hour) if each <= now]
                    if found:
                        return max(found)
        raise AssertionError("a schedule has a time in each period of eight years")

    def following(self, now: datetime) -> datetime:
        """The first time of the schedule after now."""
        local = now.astimezone(self.zone)
        for day in self._days(local.date(), _DAY):
            for hour in self.hours:
                if (day, hour) >= (local.date(), local.hour):
                    found = [each for each in self._times(day, hour) if each > now]
                    if found:
                        return min(found)
        raise AssertionError("a schedule has a time in each period of eight years")

    def _days(self, day: date, step: timedelta) -> Iterator[date]:
        for _ in range(_YEARS * 366):
            if self._has(day):
                yield day
            day += step

    def _has(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month = self.days is None or day.day in self.days
        by_week = self.weekdays is None or day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.days is not None and self.weekdays is not None else by_month and by_week

    def _times(self, day: date, hour: int) -> set[datetime]:
        """The moments of a local hour: none where the clocks leave it out, and two where they repeat it."""
        found = set()
        for minute in self.minutes:
            for fold in (0, 1):
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
                moment = local.astimezone(UTC)
                back = moment.astimezone(self.zone)
                if (back.day, back.hour, back.minute) == (local.day, local.hour, local.minute):
                    found.add(moment)
        return found


@lru_cache(maxsize=1024)
def schedule_of(text: str, zone: str = "") -> Schedule:
    """Reads a cron expression.

    :param zone: a name of the IANA database; empty for UTC.
    :raises ConfigurationError: it is none, it has no time, or the time zone does not exist.
    """
    fields = MACROS.get(text.lower(), text).split()
    if len(fields) != len(_FIELDS):
        _refuse(text, f"has {len(fields)} fields, and a cron expression has five")
    minutes, hours, days, months, weekdays = (
        _values(text, each, field) for each, field in zip(fields, _FIELDS, strict=True)
    )
    any_day, any_weekday = (_is_any(fields[at]) for at in (2, 4))
    if any_weekday and not any(min(days) <= _LONGEST[month] for month in months):
        _refuse(text, "names days that none of its months has")
    return Schedule(
        minutes=tuple(minutes), hours=tuple(hours), days=None if any_day else frozenset(days),
        months=frozenset(months), weekdays=None if any_weekday else frozenset(weekdays), zone=_zone_of(zone),
    )  # fmt: skip


def _zone_of(name: str) -> ZoneInfo:
    try:
        if name.lower() != "local":
            return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    msg = f"spec.snapshots.timeZone {name!r} is no time zone of the IANA database"
    raise ConfigurationError(msg, remedy="write a name such as Europe/Berlin, or remove the field for UTC")


def _is_any(text: str) -> bool:
    """Whether a field restricts nothing. As in a CronJob, a step does."""
    return any(part in {"*", "?", "*/1", "?/1"} for part in text.split(","))


def _values(text: str, given: str, field: _Field) -> Sequence[int]:
    found: set[int] = set()
    for part in given.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = span.partition("-")
        if low in {"*", "?"} and not dash:
            first, last = field.low, field.high
        else:
            first = _value(text, low, field)
            last = _value(text, high, field) if dash else field.high if slash else first
        if first > last:
            _refuse(text, f"has the range {span} as {field.name}, which ends before it begins")
        every = int(step) if _STEP.fullmatch(step) else 0
        if slash and not every:
            _refuse(text, f"has the step {step!r} as {field.name}, and a step is a whole number of at least 1")
        found |= set(range(first, last + 1, every or 1))
    return sorted(found)


def _value(text: str, given: str, field: _Field) -> int:
    number = field.names.get(given.upper())
    if number is None and _NUMBER.fullmatch(given):
        number = int(given)
    if number is None or not field.low <= number <= field.high:
        _refuse(text, f"has {given!r} as {field.name}, which goes from {field.low} to {field.high}")
    return number


def _refuse(text: str, why: str) -> NoReturn:
    msg = f"spec.snapshots.schedule {text!r} {why}"
    raise ConfigurationError(msg, remedy=REMEDY)
