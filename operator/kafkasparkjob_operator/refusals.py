"""What Kubernetes refuses, as the job's resource tells it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.events import JobEvent
from kafkasparkjob_operator.observation import JobResource
from kafkasparkjob_operator.plan import StartAttempt
from kafkasparkjob_operator.status import JobState, StatusDraft
from kafkasparkjob_operator.successor import REFUSED


def refused_start(job: JobResource, message: str, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for an attempt that Kubernetes refused: a quota, a policy, a webhook, a missing permission."""
    reason = "QuotaExceeded" if "exceeded quota" in message else "StartRefused"
    return _not_started(job, reason, f"Kubernetes refused what the next attempt needs: {message}", now)


def taken_name(job: JobResource, message: str, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for an attempt whose driver's name is taken by a pod that is not the operator's."""
    return _not_started(job, "PodNameTaken", message, now)


def failed_start(job: JobResource, message: str, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for an attempt for which Kubernetes failed to do what it was asked, and not for the first time.

    Called by the reconciler, which goes on trying: what is wrong is not the job.
    """
    text = f"Kubernetes fails to make what the next attempt needs, it is asked again and again: {message}"
    return _not_started(job, "StartFailed", text, now)


def _not_started(job: JobResource, reason: str, text: str, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    draft = StatusDraft(job, now)
    state = JobState.RESTARTING if draft.section("attempt").get("id") else JobState.PENDING
    draft.set_state(state, reason=reason, message=text)
    attempt = draft.section("attempt").get("id", 0)
    return draft.finish(), JobEvent(
        occurrence=f"refused/{job.generation}/{attempt}", reason=reason, message=text, warning=True
    )


def refused_successor(status: Mapping[str, Any], action: StartAttempt, message: str) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for a successor that Kubernetes refused: the attempt that runs will stop first."""
    attempt = {**status.get("attempt", {}), REFUSED: action.generation}
    text = f"no successor comes up beside attempt {attempt.get('id', 0)}, which will have to stop first: {message}"
    event = JobEvent(
        occurrence=f"successor-refused/{action.generation}/{attempt.get('id', 0)}", reason="SuccessorRefused",
        message=text, warning=True,
    )  # fmt: skip
    return {**status, "attempt": attempt}, event
