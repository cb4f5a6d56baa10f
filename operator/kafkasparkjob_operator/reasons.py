"""Why attempts are started and stopped, as the status tells it."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """``status.attempt.stopReason``: why the operator asked an attempt to stop."""

    SUSPEND = "Suspend"
    RESCALE = "Rescale"
    SPEC_CHANGE = "SpecChange"
    HEARTBEAT_TIMEOUT = "HeartbeatTimeout"
    """The driver's reports have stopped: frozen processes, a lost node, or no way to the API server."""


class StartReason(StrEnum):
    """``status.attempt.startReason``: why an attempt was started."""

    CREATED = "Created"
    RESCALED = "Rescaled"
    SPEC_CHANGED = "SpecChanged"
    RESUMED = "Resumed"
    RESTARTED = "Restarted"
