"""Conditions of a job's status, as metav1.Condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from kafkasparkjob_operator.clock import format_time

MAX_MESSAGE = 4096


class ConditionType(StrEnum):
    """What can hold for a job; ``True`` is the healthy value of each."""

    READY = "Ready"
    """The current attempt runs the current generation of the resource."""
    CONFIG_VALID = "ConfigValid"
    KAFKA_REACHABLE = "KafkaReachable"
    STATE_VALID = "StateValid"
    """The checkpoint document allows to go on; False stops the job: StateMissing, StateCorrupt, StateForeign …"""
    CHECKPOINT_HEALTHY = "CheckpointHealthy"
    TRANSACTIONS_HEALTHY = "TransactionsHealthy"
    """No transaction of the job is open for long; only jobs with EXACTLY_ONCE have it."""
    FINISHED = "Finished"
    """A bounded job has read to its end; only such jobs have it."""


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


def with_condition(
    conditions: Iterable[Mapping[str, Any]],
    kind: ConditionType,
    status: ConditionStatus,
    *,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """The conditions with one set. ``lastTransitionTime`` moves only when the status of that condition changes.

    Called by the status draft; the order of the list is kept, so that an unchanged condition is an unchanged list.
    """
    result = [dict(one) for one in conditions]
    former = next((one for one in result if one.get("type") == kind), None)
    changed = former is None or former.get("status") != status
    condition = {
        "type": str(kind),
        "status": str(status),
        "observedGeneration": generation,
        "lastTransitionTime": (
            format_time(now) if changed or former is None else former.get("lastTransitionTime") or format_time(now)
        ),
        "reason": reason,
        "message": message[:MAX_MESSAGE],
    }
    if former is None:
        return [*result, condition]
    return [condition if one is former else one for one in result]
