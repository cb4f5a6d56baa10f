"""The status of a job under construction: it starts from the last status, so untouched fields stay."""

from __future__ import annotations

import copy
from datetime import datetime
from enum import StrEnum
from typing import Any

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.status.conditions import MAX_MESSAGE, ConditionStatus, ConditionType, with_condition
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.phases import Phase, transition_of
from kafkasparkjob_operator.status.reasons import JobReason
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
    """A bounded job has read to its end; only a change of the spec starts it again."""
    DELETING = "Deleting"
    """The resource is being deleted, and the operator's finalizer holds it until its transactions are settled."""


INVALID_SPEC = "InvalidSpec"
"""``status.reason`` of a job whose current spec cannot run; its driver may run the last valid spec."""
REFUSED = "refused"
"""``status``: changes of the resource that are known to fail."""
MOST_REFUSALS = 5
REASON_SINCE = "reasonSince"
"""``status``: when ``status.reason`` became what it is."""
PHASE = "phase"
"""``status``: what the job does, since when, and by when it ends."""
TARGET = "target"
"""``status``: what the operator works towards."""
_AT_REST = frozenset({JobState.SUSPENDED, JobState.FINISHED})
_PHASE_OF = {
    JobState.PENDING: Phase.PENDING, JobState.STARTING: Phase.SCHEDULING, JobState.RUNNING: Phase.RUNNING,
    JobState.RESTARTING: Phase.STOPPING, JobState.RESCALING: Phase.STOPPING, JobState.SUSPENDING: Phase.STOPPING,
    JobState.SUSPENDED: Phase.SUSPENDED, JobState.FAILED: Phase.FAILED, JobState.FINISHED: Phase.FINISHED,
    JobState.DELETING: Phase.DELETING,
}  # fmt: skip
"""Of a status that an earlier release has written."""
_BEGINNINGS = (("attempt", "id"), (TARGET, "since"))
"""A phase begins again where these change."""


class StatusDraft:
    """Collects status and events of a plan.

    Called by the state machine, which decides; the draft only records.
    """

    def __init__(self, job: JobResource, now: datetime) -> None:
        self._job = job
        self._status: dict[str, Any] = copy.deepcopy(dict(job.status))
        self._status["observedGeneration"] = job.generation
        self.events: list[JobEvent] = []
        self.now = now

    @property
    def previous_state(self) -> str:
        """The state before this plan."""
        return str(self._job.status.get("state", ""))

    def seconds_of(self, reason: str) -> float:
        """Seconds since the status has that reason; 0 where the status before this plan has another.

        A clock that was set back must not make a wait longer, so the difference counts in either direction.
        """
        # A CustomResourceDefinition of a previous release drops the field.
        since = parse_time(self._job.status.get(REASON_SINCE) or self.since(ConditionType.READY, ConditionStatus.FALSE))
        if since is None or self._job.status.get("reason") != reason:
            return 0.0
        return abs((self.now - since).total_seconds())

    @property
    def previous_phase(self) -> Phase | None:
        """The phase before this plan; None where an earlier release has written the status."""
        name = (self._job.status.get(PHASE) or {}).get("name")
        return Phase(name) if name in set(Phase) else None

    @property
    def phase(self) -> Phase:
        """The phase of the status under construction."""
        name = self.section(PHASE).get("name")
        return Phase(name) if name in set(Phase) else _PHASE_OF[JobState(self.state or JobState.PENDING)]

    @property
    def deadline(self) -> datetime | None:
        """Of the phase under construction; None where it has none."""
        return parse_time(self.section(PHASE).get("deadline"))

    def enter(self, phase: Phase, *, deadline: datetime | None = None) -> None:
        """Sets the phase alone. A phase begins again with another attempt, and with another target.

        :param deadline: by when it ends; None where no time of the wall clock limits it.
        """
        kept = self._job.status.get(PHASE) or {}
        since = kept.get("since") if self.seconds_in(phase) is not None else None
        self._status[PHASE] = {"name": str(phase), "since": since or format_time(self.now)}
        if deadline is not None:
            self._status[PHASE]["deadline"] = format_time(deadline)

    def seconds_in(self, phase: Phase) -> float | None:
        """Seconds since the phase began; None where the status before this plan has another.

        A clock that was set back must not make a wait longer, so the difference counts in either direction.
        """
        kept = self._job.status.get(PHASE) or {}
        since = parse_time(kept.get("since"))
        before = [(self._job.status.get(name) or {}).get(key) for name, key in _BEGINNINGS]
        now = [self.section(name).get(key) for name, key in _BEGINNINGS]
        if since is None or kept.get("name") != phase or before != now:
            return None
        return abs((self.now - since).total_seconds())

    def keep_generation(self) -> None:
        """The status keeps the generation that it describes: nothing was decided about a later generation."""
        self._status["observedGeneration"] = self._job.status.get("observedGeneration")

    @property
    def state(self) -> str:
        return str(self._status.get("state", ""))

    @property
    def reason(self) -> str:
        return str(self._status.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self._status.get("message", ""))

    @property
    def previous_checkpoint(self) -> int:
        """The checkpoint that the status had before this plan; 0 for none."""
        number = self._job.status.get("checkpoint", {}).get("id", 0)
        return number if isinstance(number, int) else 0

    @property
    def parallelism(self) -> int:
        """Parallelism of the attempt; 0 before the first attempt."""
        number = self._status.get("parallelism", 0)
        return number if isinstance(number, int) else 0

    def section(self, name: str) -> dict[str, Any]:
        """An object of the status, to be read and changed in place."""
        found = self._status.setdefault(name, {})
        assert isinstance(found, dict)
        return found

    @property
    def refusal(self) -> dict[str, Any]:
        """The standing refusal of the present resource; empty for none."""
        return next((entry for entry in self._refused if entry.get("standing") is True), {})

    @property
    def last_way_back(self) -> dict[str, Any]:
        """The newest refusal for which the job went back, whether it stands or is history; empty for none."""
        return next((entry for entry in reversed(self._refused) if "backTo" in entry), {})

    @property
    def _refused(self) -> list[dict[str, Any]]:
        entries = self._status.get(REFUSED)
        return entries if isinstance(entries, list) else []

    @property
    def refusal_reason(self) -> JobReason:
        """By which state and condition name the standing refusal."""
        return JobReason.ROLLED_BACK if "backTo" in self.refusal else JobReason.REVISION_REFUSED

    def add_refusal(self, entry: dict[str, Any]) -> None:
        """A refusal of the present resource, in place of the standing refusal."""
        history = [each for each in self._refused if each.get("standing") is not True]
        self._status[REFUSED] = [*history, {**entry, "standing": True}][-MOST_REFUSALS:]

    def end_refusal(self) -> None:
        """Nothing is known against the present resource. The refusal is history."""
        entries = self._status.get(REFUSED)
        if isinstance(entries, list):
            self._status[REFUSED] = [{name: each[name] for name in each if name != "standing"} for each in entries]
        else:
            self._status.pop(REFUSED, None)

    def replace(self, name: str, value: object) -> None:
        """Sets a part of the status."""
        self._status[name] = value

    def set_state(
        self,
        state: JobState,
        *,
        reason: str,
        message: str,
        phase: Phase,
        deadline: datetime | None = None,
        ready: bool = False,
    ) -> None:
        """State, reason and message, and with them the Ready condition and the phase (:meth:`enter`)."""
        self.enter(phase, deadline=deadline)
        # Ready may have been False before, for another reason, so its time does not say when this reason came.
        kept = self._job.status.get(REASON_SINCE) if self._job.status.get("reason") == reason else None
        self._status[REASON_SINCE] = kept or format_time(self.now)
        self._status |= {"state": str(state), "reason": str(reason), "message": message[:MAX_MESSAGE]}
        status = ConditionStatus.TRUE if ready else ConditionStatus.FALSE
        self.condition(ConditionType.READY, status, reason=reason, message=message)

    def set_starting(
        self, state: JobState, *, reason: str, message: str, phase: Phase, deadline: datetime | None = None
    ) -> None:
        """:meth:`set_state` of an attempt that does not run yet; after a failure the failure's reason stays.

        A loop of restarts is starting most of the time, and a person looks for its failure.
        """
        failure, restarts = self.section("lastFailure"), self.section("restarts")
        cause = failure.get("reason")
        if state is JobState.RESTARTING and restarts.get("consecutiveFailures") and restarts.get("lastReason") == cause:
            reason = str(cause)
            message = f"{message}; attempt {failure.get('attempt')} failed: {failure.get('message')}"
        self.set_state(state, reason=reason, message=message, phase=phase, deadline=deadline)

    def _judge_progress(self) -> None:
        """Reconciling and Stalled of kstatus, by state and reason: at most one of them is True."""
        if not self.state:
            return
        state, reason = self.state, str(self._status.get("reason", ""))
        ready = self.since(ConditionType.READY, ConditionStatus.TRUE) is not None
        message, refused = self.message, self.refusal
        stalled = state == JobState.FAILED or (state == JobState.RUNNING and reason == INVALID_SPEC) or bool(refused)
        if refused and state != JobState.FAILED:
            reason, message = self.refusal_reason, str(refused.get("message"))
        paused = self.has_condition(ConditionType.RECONCILIATION_PAUSED)
        reconciling = not (stalled or ready or paused or state in _AT_REST)
        for kind, is_true in ((ConditionType.RECONCILING, reconciling), (ConditionType.STALLED, stalled)):
            status = ConditionStatus.TRUE if is_true else ConditionStatus.FALSE
            self.condition(kind, status, reason=reason or self.state, message=message if is_true else "")

    def condition(self, kind: ConditionType, status: ConditionStatus, *, reason: str, message: str = "") -> None:
        """Sets a condition; its transition time changes with its status alone."""
        self._status["conditions"] = with_condition(
            self._status.get("conditions") or (),
            kind,
            status,
            reason=reason,
            message=message,
            generation=self._job.generation,
            now=self.now,
        )

    def since(self, kind: ConditionType, status: ConditionStatus) -> str | None:
        """The time since which the condition has this status; None where it has another status."""
        for condition in self._status.get("conditions") or ():
            if condition.get("type") == kind and condition.get("status") == status:
                return str(condition.get("lastTransitionTime") or "")
        return None

    def reason_of(self, kind: ConditionType) -> str:
        """The condition's reason; empty where it was never set."""
        return self._text_of(kind, "reason")

    def message_of(self, kind: ConditionType) -> str:
        """The condition's message; empty where it was never set."""
        return self._text_of(kind, "message")

    def _text_of(self, kind: ConditionType, name: str) -> str:
        conditions = self._status.get("conditions") or ()
        return next((str(each.get(name) or "") for each in conditions if each.get("type") == kind), "")

    def has_condition(self, kind: ConditionType) -> bool:
        """Whether the condition was ever set."""
        return any(condition.get("type") == kind for condition in self._status.get("conditions") or ())

    def drop_condition(self, kind: ConditionType) -> None:
        """Takes away a condition that the job does not have any more."""
        conditions = self._status.get("conditions") or ()
        self._status["conditions"] = [condition for condition in conditions if condition.get("type") != kind]

    def event(
        self, occurrence: str, reason: str, message: str, *, warning: bool = False, reported: bool = False
    ) -> None:
        """Adds an event; each occurrence is published once, however often the same plan is made."""
        self.events.append(
            JobEvent(occurrence=occurrence, reason=reason, message=message, warning=warning, reported=reported)
        )

    def finish(self) -> dict[str, Any]:
        """The status to write; empty objects are left out."""
        self._judge_progress()
        if self.state:
            phase = self.section(PHASE)
            phase.setdefault("since", format_time(self.now))
            phase["name"] = str(self.phase)
            phase["awaits"] = str(transition_of(self.phase, str(self._status.get("reason", ""))).actor)
        # An autoscaler counts the working executors; those of a standby attempt are idle.
        attempt = self.section("attempt").get("id")
        labels = names.labels(self._job.identity.name, role=names.ROLE_EXECUTOR, attempt=attempt)
        chosen = (names.LABEL_JOB, names.LABEL_ROLE, names.LABEL_ATTEMPT)
        self._status["selector"] = ",".join(f"{key}={labels[key]}" for key in chosen if key in labels)
        return {name: value for name, value in self._status.items() if value not in ({}, [], None)}
