"""Wall-clock times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The time now; the only place that reads the wall clock, so that all other code takes the time as an argument."""
    return datetime.now(UTC)


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
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
