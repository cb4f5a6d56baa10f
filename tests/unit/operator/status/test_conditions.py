"""Conditions: what moves their transition time, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType, with_condition

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_the_transition_time_moves_with_the_status_only() -> None:
    def ready(conditions: list[dict[str, object]], status: ConditionStatus, reason: str, minutes: int) -> object:
        conditions[:] = with_condition(
            conditions, ConditionType.READY, status, reason=reason, message="", generation=minutes,
            now=NOON + timedelta(minutes=minutes),
        )  # fmt: skip
        return conditions[0]["lastTransitionTime"], conditions[0]["reason"], conditions[0]["observedGeneration"]

    found: list[dict[str, object]] = []
    assert ready(found, ConditionStatus.FALSE, "Starting", 0) == ("2026-11-21T12:00:00Z", "Starting", 0)
    assert ready(found, ConditionStatus.FALSE, "Recovering", 1) == ("2026-11-21T12:00:00Z", "Recovering", 1)
    assert ready(found, ConditionStatus.TRUE, "Running", 2) == ("2026-11-21T12:02:00Z", "Running", 2)
    assert len(found) == 1


def test_conditions_keep_their_order_and_those_of_others() -> None:
    others = [{"type": "Foreign", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "x"}]
    changed = with_condition(
        others, ConditionType.READY, ConditionStatus.TRUE, reason="Running", message="", generation=1, now=NOON
    )
    assert [each["type"] for each in changed] == ["Foreign", "Ready"]
    assert changed[1]["lastTransitionTime"] == "x"
