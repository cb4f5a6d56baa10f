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
    """Status and event for an attempt that Kubernetes refused: a quota, a policy, a missing permission."""
    reason = "QuotaExceeded" if "exceeded quota" in message else "StartRefused"
    draft = StatusDraft(job, now)
    state = JobState.RESTARTING if draft.section("attempt").get("id") else JobState.PENDING
    draft.set_state(state, reason=reason, message=f"Kubernetes refused what the next attempt needs: {message}")
    attempt = draft.section("attempt").get("id", 0)
    return draft.finish(), JobEvent(
        occurrence=f"refused/{job.generation}/{attempt}", reason=reason, message=message, warning=True
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
