"""Conditions of a job's status, as metav1.Condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from kafkasparkjob_operator.clock import format_time

MAX_MESSAGE = 4096


class ConditionType(StrEnum):
    """The conditions of a job. ``True`` is the healthy value of each but RECONCILING, STALLED and
    RECONCILIATION_PAUSED."""

    READY = "Ready"
    """The current attempt runs the current generation of the resource, or the last that is not known to fail."""
    RECONCILING = "Reconciling"
    """kstatus: the job is on its way to what the resource asks for; ``True`` is abnormal."""
    STALLED = "Stalled"
    """kstatus: the job comes no further until something outside the operator changes; ``True`` is abnormal."""
    CONFIG_VALID = "ConfigValid"
    KAFKA_REACHABLE = "KafkaReachable"
    STATE_VALID = "StateValid"
    """The checkpoint document allows a start; False stops the job: StateMissing, StateCorrupt, StateForeign …"""
    CHECKPOINT_HEALTHY = "CheckpointHealthy"
    TRANSACTIONS_HEALTHY = "TransactionsHealthy"
    """No transaction of the job has been open for too long; only jobs with ExactlyOnce have it."""
    TRANSACTIONS_DURABLE = "TransactionsDurable"
    """One broker's outage neither stops nor loses the job's transactions; only jobs with ExactlyOnce have it."""
    RECORDS_HEALTHY = "RecordsHealthy"
    """Records parse; False where all of the job, a topic or a schema are dropped. Only with Skip and DeadLetter."""
    EXECUTORS_AVAILABLE = "ExecutorsAvailable"
    """An executor of the current attempt runs."""
    RECONCILIATION_PAUSED = "ReconciliationPaused"
    """Somebody has asked the operator to change nothing of the job; only such jobs have it."""
    FINISHED = "Finished"
    """A bounded job has read to its end; only such jobs have it."""
    OFFSETS_RETAINED = "OffsetsRetained"
    """Of a snapshot: Kafka still has the records behind its offsets."""
    SETTLED = "Settled"
    """The transactions of a job that is being deleted are ended; only a job whose deletion waits for this has it."""


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
    """The conditions with a condition set. ``lastTransitionTime`` moves only when its status changes.

    Called by the status draft; the order of the list is kept, so that an unchanged condition is an unchanged list.
    """
    result = [dict(condition) for condition in conditions]
    previous = next((condition for condition in result if condition.get("type") == kind), None)
    changed = previous is None or previous.get("status") != status
    replacement = {
        "type": str(kind),
        "status": str(status),
        "observedGeneration": generation,
        "lastTransitionTime": (
            format_time(now) if changed or previous is None else previous.get("lastTransitionTime") or format_time(now)
        ),
        "reason": str(reason),
        "message": message[:MAX_MESSAGE],
    }
    if previous is None:
        return [*result, replacement]
    return [replacement if condition is previous else condition for condition in result]
