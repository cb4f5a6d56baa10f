"""Reasons for the start and the stop of attempts, as the status shows them."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """``status.attempt.stopReason``: why the operator stopped an attempt."""

    SUSPEND = "Suspend"
    RESCALE = "Rescale"
    SPEC_CHANGE = "SpecChange"
    DELETE = "Delete"
    """The resource is being deleted, and its transactions have no time-out."""
    HEARTBEAT_TIMEOUT = "HeartbeatTimeout"
    """The driver's reports have stopped: frozen processes, a lost node, or an unreachable API server."""


class StartReason(StrEnum):
    """``status.attempt.startReason``: why an attempt was started."""

    CREATED = "Created"
    RESCALED = "Rescaled"
    SPEC_CHANGED = "SpecChanged"
    RESUMED = "Resumed"
    RESTARTED = "Restarted"
    DELETED = "Deleted"
    """To settle the transactions of a job that is being deleted."""
