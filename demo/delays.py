"""The expected result of the example's transform, computed a second time without Spark."""

from __future__ import annotations

from typing import Any

ON_TIME_MINUTES = 15
LATE_MINUTES = 60


def delay_class(dep_delay: int | None, arr_delay: int | None) -> str:
    """The class of a flight's delay."""
    if dep_delay is None:
        return "cancelled"
    if arr_delay is None:
        return "diverted"
    if arr_delay <= 0:
        return "early"
    if arr_delay <= ON_TIME_MINUTES:
        return "on time"
    return "late" if arr_delay <= LATE_MINUTES else "very late"


def expected(flight: dict[str, Any]) -> dict[str, Any]:
    """The sink's record for a source record. Spark writes no field for a null."""
    dep_delay, arr_delay = flight["dep_delay"], flight["arr_delay"]
    made_up = None if dep_delay is None or arr_delay is None else dep_delay - arr_delay
    result = {
        "id": flight["id"],
        "flight": f"{flight['carrier']}{flight['flight']}",
        "route": f"{flight['origin']}-{flight['dest']}",
        "class": delay_class(dep_delay, arr_delay),
        "minutesMadeUp": made_up,
    }
    return {name: value for name, value in result.items() if value is not None}
