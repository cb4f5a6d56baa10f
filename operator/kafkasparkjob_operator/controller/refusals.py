"""Status and events for requests that Kubernetes refuses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kafkasparkjob_operator.decisions.plan import StartAttempt
from kafkasparkjob_operator.observation.observation import JobResource, recorded_number
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.status import JobState, StatusDraft


def refused_start(job: JobResource, message: str, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for an attempt that Kubernetes refused: a quota, a policy, a webhook, a missing permission."""
    text = f"Kubernetes refused an object of the next attempt: {message}"
    if "exceeded quota" not in message:
        return _not_started(job, "StartRefused", text, now)
    remedy = f"Raise the quota, or lower what the job asks for: kubectl describe quota -n {job.identity.namespace}"
    return _not_started(job, "QuotaExceeded", text, now, remedy=remedy)


def taken_name(job: JobResource, message: str, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for an attempt whose driver's name is taken by a pod that is not the operator's."""
    return _not_started(job, "PodNameTaken", message, now)


def failed_start(job: JobResource, message: str, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for an attempt whose objects Kubernetes repeatedly failed to create.

    Called by the reconciler, which continues to retry: the job is not the cause.
    """
    text = f"Kubernetes failed to create an object of the next attempt; the operator retries: {message}"
    return _not_started(job, "StartFailed", text, now)


def refused_hold(message: str) -> JobEvent:
    """Event for a resource without the operator's finalizer: the operator lacks the right."""
    text = f"the deletion of this job will not wait for its transactions: {message}"
    remedy = "Upgrade the chart to this release, which grants the right"
    return JobEvent(occurrence="hold-refused", reason="FinalizerRefused", message=text, remedy=remedy, warning=True)


def _not_started(
    job: JobResource, reason: str, text: str, now: datetime, *, remedy: str = ""
) -> tuple[dict[str, Any], JobEvent]:
    draft = StatusDraft(job, now)
    state = JobState.RESTARTING if draft.section("attempt").get("id") else JobState.PENDING
    attempt = draft.section("attempt").get("id", 0)
    event = JobEvent(
        occurrence=f"refused/{job.generation}/{attempt}", reason=reason, message=text, remedy=remedy, warning=True
    )
    draft.set_state(state, reason=reason, message=event.text)
    return draft.finish(), event


def refused_standby(job: JobResource, action: StartAttempt, message: str) -> JobEvent:
    """Event for a standby driver that Kubernetes refused: the running attempt will stop first."""
    attempt = recorded_number(job)
    return JobEvent(
        occurrence=f"successor-refused/{action.generation}/{attempt}", reason="SuccessorRefused",
        message=f"Kubernetes refused a standby driver, so attempt {attempt} stops first: {message}", warning=True,
    )  # fmt: skip
