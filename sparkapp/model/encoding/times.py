"""Wall-clock times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime

_YEARS = range(1900, 3000)
"""Other years are no times: adding a duration or changing the zone could overflow."""


def format_time(time: datetime) -> str:
    """RFC 3339, UTC, whole seconds: metav1.Time."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: object) -> datetime | None:
    """A time of an API object or a driver's report; None where the text is no time."""
    if not isinstance(text, str) or not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.year not in _YEARS:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
