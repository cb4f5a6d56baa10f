"""The wall clock, and times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from sparkapp.model.encoding.times import format_time, parse_time

__all__ = ["format_time", "now", "parse_time"]


def now() -> datetime:
    """The time now; the only place that reads the wall clock, so that all other code takes the time as an argument."""
    return datetime.now(UTC)
