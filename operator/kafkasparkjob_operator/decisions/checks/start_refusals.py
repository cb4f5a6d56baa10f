"""Refusals of a start: by the job's state, and by its transactional id prefix."""

from __future__ import annotations

from kafkasparkjob_operator.decisions.attempts import attempts_ran, current_attempt
from kafkasparkjob_operator.observation.observation import Live, Observation, PrefixRefusal
from kafkasparkjob_operator.observation.state_view import StateKind, state_missing
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from sparkapp.model import commands, names
from sparkapp.model.errors import KafkaSparkJobError

LOOK_AT_STATE_AGAIN = 30.0
"""A refused state may be restored by hand, and no watch brings its changes."""
AWAIT_COLLECTION = 2.0
"""Kubernetes usually needs a moment. The pauses double up to :data:`LOOK_AT_STATE_AGAIN`."""
COLLECTION = JobReason.AWAITING_COLLECTION


def refused_state(draft: StatusDraft, observation: Observation, live: Live) -> float | None:
    """Writes why no attempt may start from a state that is gone, unreadable or another job's.

    :returns: seconds after which to look again; None where an attempt may start.
    """
    state = live.state
    checkpoint = int(draft.section("checkpoint").get("id", 0))
    if state.kind is StateKind.COLLECTED:
        waited = draft.seconds_of(COLLECTION)
        job, name = observation.job.identity, names.state_config_map(observation.job.identity.name)
        message = (
            "the job waits until Kubernetes has removed the state of a deleted job of the same name; if ConfigMap"
            f" {name} stays, delete it: {commands.delete('ConfigMap', name, job.namespace)}"
        )
        draft.set_state(JobState.PENDING, reason=COLLECTION, message=message, phase=Phase.PENDING)
        return min(max(AWAIT_COLLECTION, waited), LOOK_AT_STATE_AGAIN)
    error: KafkaSparkJobError | None = state.error
    if (state.kind is StateKind.ABSENT and attempts_ran(observation, live)) or (
        state.kind is StateKind.EMPTY and checkpoint > 0
    ):
        error = state_missing(observation.job.identity, attempts=current_attempt(observation), checkpoint=checkpoint)
    if error is None:
        if state.kind is not StateKind.ABSENT:
            draft.condition(ConditionType.STATE_VALID, ConditionStatus.TRUE, reason="Readable")
        return None
    identity = observation.job.identity
    text = f"{error.message}; {commands.remedy_in(error, namespace=identity.namespace, name=identity.name)}"
    draft.condition(ConditionType.STATE_VALID, ConditionStatus.FALSE, reason=error.reason, message=text)
    draft.set_state(JobState.FAILED, reason=error.reason, message=text, phase=Phase.FAILED)
    draft.event(f"state/{error.reason}/{current_attempt(observation)}", error.reason, text, warning=True)
    return LOOK_AT_STATE_AGAIN


def refused_prefix(draft: StatusDraft, refusal: PrefixRefusal | None) -> float | None:
    """Writes why no attempt may start. Two jobs with the same transactional ids abort each other's transactions.

    Two jobs that commit offsets to the same group take each other's offsets for their own.

    :returns: seconds after which to look again; None where an attempt may start.
    """
    if refusal is None:
        return None
    draft.set_state(JobState.FAILED, reason=refusal.reason, message=refusal.message, phase=Phase.FAILED)
    draft.event(f"prefix/{refusal.reason}", refusal.reason, refusal.message, warning=True)
    return LOOK_AT_STATE_AGAIN
