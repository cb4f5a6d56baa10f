"""The status of a job under construction: starts from the last one, so that whatever nobody touches stays."""

from __future__ import annotations

import copy
from datetime import datetime
from enum import StrEnum
from typing import Any

from kafkasparkjob_operator.conditions import MAX_MESSAGE, ConditionStatus, ConditionType, with_condition
from kafkasparkjob_operator.events import JobEvent
from kafkasparkjob_operator.observation import JobResource
from sparkapp.model import names


class JobState(StrEnum):
    """``status.state``."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    RESCALING = "Rescaling"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    FAILED = "Failed"
    FINISHED = "Finished"
    """A bounded job has read to its end; only a change of the resource starts it again."""


class StatusDraft:
    """Collects status and events of one plan.

    Called by the state machine; it decides, this only writes down.
    """

    def __init__(self, job: JobResource, now: datetime) -> None:
        self._job = job
        self._status: dict[str, Any] = copy.deepcopy(dict(job.status))
        self._status["observedGeneration"] = job.generation
        self.events: list[JobEvent] = []
        self.now = now

    @property
    def former_state(self) -> str:
        """The state before this plan."""
        return str(self._job.status.get("state", ""))

    @property
    def state(self) -> str:
        return str(self._status.get("state", ""))

    @property
    def parallelism(self) -> int:
        """Parallelism of the attempt; 0 before the first one."""
        number = self._status.get("parallelism", 0)
        return number if isinstance(number, int) else 0

    def section(self, name: str) -> dict[str, Any]:
        """One object of the status, to be read and changed in place."""
        found = self._status.setdefault(name, {})
        assert isinstance(found, dict)
        return found

    def replace(self, name: str, value: object) -> None:
        self._status[name] = value

    def set_state(self, state: JobState, *, reason: str, message: str, ready: bool = False) -> None:
        """State, reason and message, and with them the Ready condition."""
        self._status |= {"state": str(state), "reason": reason, "message": message[:MAX_MESSAGE]}
        status = ConditionStatus.TRUE if ready else ConditionStatus.FALSE
        self.condition(ConditionType.READY, status, reason=reason, message=message)

    def condition(self, kind: ConditionType, status: ConditionStatus, *, reason: str, message: str = "") -> None:
        self._status["conditions"] = with_condition(
            self._status.get("conditions") or (),
            kind,
            status,
            reason=reason,
            message=message,
            generation=self._job.generation,
            now=self.now,
        )

    def has_condition(self, kind: ConditionType) -> bool:
        return any(one.get("type") == kind for one in self._status.get("conditions") or ())

    def event(self, occurrence: str, reason: str, message: str, *, warning: bool = False) -> None:
        """Publishes once for each occurrence, however often the same plan is made."""
        self.events.append(JobEvent(occurrence=occurrence, reason=reason, message=message, warning=warning))

    def finish(self) -> dict[str, Any]:
        """The status to write; empty objects are left out."""
        # An autoscaler counts the executors that work; those of an attempt that awaits its turn have nothing to do.
        attempt = self.section("attempt").get("id")
        labels = names.labels(self._job.identity.name, role=names.ROLE_EXECUTOR, attempt=attempt)
        chosen = (names.LABEL_JOB, names.LABEL_ROLE, names.LABEL_ATTEMPT)
        self._status["selector"] = ",".join(f"{key}={labels[key]}" for key in chosen if key in labels)
        return {name: value for name, value in self._status.items() if value not in ({}, None)}
