"""The cause of a failure has changed: corrected modules or a corrected state start a job again."""

from __future__ import annotations

from kafkasparkjob_operator.decisions.attempts import current_attempt, record_of
from kafkasparkjob_operator.decisions.checks.code import changed_code, config_map_of
from kafkasparkjob_operator.observation.observation import Live, Observation
from kafkasparkjob_operator.status.status import StatusDraft
from sparkapp.model.errors import CONDITION_BY_REASON, STATE_VALID

STATE_DIGEST = "stateDigest"
"""``status.lastFailure``: digest of the state ConfigMap that the attempt failed with, where the state is the cause."""


def digest_of_cause(reason: str, live: Live) -> dict[str, str]:
    """The part of ``status.lastFailure`` by which :func:`forget_failures` sees a corrected state.

    Called when a failure is recorded. Empty where the state is not the cause.
    """
    return {STATE_DIGEST: live.state.digest} if CONDITION_BY_REASON.get(reason) == STATE_VALID else {}


def forget_failures(draft: StatusDraft, observation: Observation, live: Live) -> None:
    """Failures with other modules, or with another state, hold no attempt back.

    Called before the state machine decides about the next attempt.
    """
    failure, restarts = draft.section("lastFailure"), draft.section("restarts")
    other_state = failure.get(STATE_DIGEST, live.state.digest) != live.state.digest
    record = record_of(live, current_attempt(observation), observation.job.identity.uid)
    imported = config_map_of(record.spec) if record is not None else ""
    if not other_state and not changed_code(draft, observation, imported):
        return
    failure.pop("fatal", None)
    restarts.pop("nextRetryTime", None)
    if restarts.get("consecutiveFailures"):
        restarts["consecutiveFailures"] = 0
