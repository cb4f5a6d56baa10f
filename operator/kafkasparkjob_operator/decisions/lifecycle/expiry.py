"""The deletion of a Finished job after ``spec.ttlSecondsAfterFinished``.

The time counts from the condition ``Finished``, which the operator writes by its own clock. It survives the operator.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.plan import Action, DeleteResource
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The result of :func:`expiry`."""

    actions: tuple[Action, ...] = ()
    look_again_after: float | None = None


def expiry(draft: StatusDraft, desired: DesiredJob | None) -> Expiry:
    """Deletes a Finished job whose time has passed.

    Called by the state machine when no pod of the job runs, and the state is decided. A job is deleted only after its
    status has said ``Finished``, so whoever waits for that state sees it.

    :param desired: None where the resource is invalid: somebody is changing it.
    """
    ttl = None if desired is None else desired.ttl_seconds_after_finished
    since = parse_time(draft.since(ConditionType.FINISHED, ConditionStatus.TRUE))
    if ttl is None or since is None or draft.state != JobState.FINISHED:
        return Expiry()
    # A clock that was set back must not delete anything sooner.
    left = min(float(ttl), ttl - (draft.now - since).total_seconds())
    if left > 0 or draft.previous_state != JobState.FINISHED:
        return Expiry(look_again_after=max(left, 0.0))
    message = f"the job is deleted: it is Finished for at least {ttl} s (spec.ttlSecondsAfterFinished)"
    draft.event("expired", JobReason.TIME_TO_LIVE_EXPIRED, message)
    return Expiry(actions=(DeleteResource(),))
