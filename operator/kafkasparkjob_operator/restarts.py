"""What the end of an attempt means for the next one: nothing, a pause, or the end of the job's tries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kafkasparkjob_operator.attempts import current_attempt
from kafkasparkjob_operator.backoff import backoff_seconds
from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.endings import Ending, Outcome, ending_of, silent_ending, with_command
from kafkasparkjob_operator.observation import Live, Observation
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.reasons import StopReason
from kafkasparkjob_operator.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import RestartPolicy, restart_policy_of
from sparkapp.model import errors

KAFKA_REASONS = frozenset(
    kind.reason
    for kind in (
        errors.KafkaAccessError, errors.KafkaUnreachable, errors.AuthenticationFailed, errors.AuthorizationFailed,
        errors.TopicNotFound, errors.TransactionTimeoutTooLong,
        errors.GroupMembershipError, errors.GroupMemberFenced, errors.GroupProtocolMismatch, errors.GroupFull,
        errors.SessionTimeoutRefused, errors.LeaderUnavailable, errors.GroupInUse,
    )
)  # fmt: skip
STATE_REASONS = frozenset(
    kind.reason
    for kind in (
        errors.CheckpointCorrupt, errors.CheckpointForeign, errors.CheckpointMissing, errors.CheckpointTooLarge,
        errors.ClusterChanged, errors.StateRolledBack,
        errors.StateUncertain, errors.TransactionLost, errors.OperatorStateMissing, errors.OperatorStateIncompatible,
    )
)  # fmt: skip
"""What the job has stored does not allow to go on, and only a person can mend it.

Not that it cannot be read or written for now (CheckpointStoreUnavailable, CheckpointRefused, Superseded, VolumeFull):
the next attempt may find it as it should be. Nor a checkpoint to go back to that is not there: the job's state is
right, and without spec.restoreFrom it goes on.
"""
TRANSFORM_FAILURES = 6
"""In a row, where ``maxConsecutiveFailures`` is 0: the same record fails again. As a Kubernetes Job's backoffLimit."""
QUICK_END_SECONDS = 60
"""An attempt that drains unasked so soon is not started again at once: it could go on like that."""


def record_ending(draft: StatusDraft, observation: Observation, live: Live, driver: PodView | None) -> None:
    """Notes once how the current attempt ended, counts, and sets when the next one may start.

    Called by the state machine when the driver has finished or is gone, before its pod is deleted.
    """
    number = current_attempt(observation)
    if driver is None:
        driver = _gone_with_last_words(observation, number)
    ending = ending_of(driver, attempt=number, document=live.state.document)
    ending = with_command(ending, observation.job.identity.key)
    attempt = draft.section("attempt")
    lost = attempt.get("stopReason") == StopReason.HEARTBEAT_TIMEOUT
    if lost and ending.outcome not in {Outcome.DRAINED, Outcome.FINISHED}:
        ending = silent_ending(number)
    attempt["outcome"] = str(ending.outcome)
    _judge_conditions(draft, ending)
    if ending.outcome is Outcome.FINISHED:
        draft.section("restarts").update(consecutiveFailures=0)
        return
    if attempt.get("stopReason") and not (lost and ending.outcome is Outcome.KILLED):
        document = live.state.document
        began = document is not None and document.attempt >= number
        if began and ending.outcome is not Outcome.DRAINED:
            draft.event(f"end/{number}", "NotDrained", f"attempt {number} did not drain: {ending.text}", warning=True)
        return
    if ending.outcome is Outcome.DRAINED:
        _drained_unasked(draft, observation, number)
    else:
        _failed(draft, observation, number, ending)


def _gone_with_last_words(observation: Observation, number: int) -> PodView | None:
    """The attempt's driver as a watch last saw it: finished, and deleted before anybody looked."""
    seen = observation.ended_driver
    if seen is None or seen.attempt != number or seen.owner_uid != observation.job.identity.uid:
        return None
    return seen


def state_while_pods_go(draft: StatusDraft, attempt: int) -> JobState:
    """Of a job whose driver has ended, until the other pods of its attempts are gone, too.

    A bounded job that has read to its end is not starting again, and Finished only then.
    """
    if draft.section("attempt").get("outcome") == Outcome.FINISHED:
        return JobState.RUNNING
    return JobState.RESTARTING if attempt else JobState.PENDING


def note_stability(draft: StatusDraft, spec: Mapping[str, Any]) -> float | None:
    """Ends the row of failures once an attempt has run long enough.

    :returns: seconds until then, or None.
    """
    restarts = draft.section("restarts")
    if draft.state != JobState.RUNNING:
        return None
    restarts.pop("nextRetryTime", None)
    if not restarts.get("consecutiveFailures"):
        return None
    left = restart_policy_of(spec).reset_after_seconds - _age_seconds(draft)
    if left > 0:
        return left
    restarts["consecutiveFailures"] = 0
    return None


def _drained_unasked(draft: StatusDraft, observation: Observation, number: int) -> None:
    restarts = draft.section("restarts")
    policy = restart_policy_of(observation.job.spec)
    delay = policy.initial_seconds if _age_seconds(draft) < QUICK_END_SECONDS else 0
    restarts["total"] = restarts.get("total", 0) + 1
    restarts["lastReason"] = "Drained"
    restarts["nextRetryTime"] = format_time(draft.now + timedelta(seconds=delay))
    message = f"attempt {number} drained, asked by somebody else than the operator; another one follows"
    draft.event(f"end/{number}", "RestartScheduled", message)
    draft.set_state(JobState.RESTARTING, reason="Drained", message=message)


def _failed(draft: StatusDraft, observation: Observation, number: int, ending: Ending) -> None:
    policy = restart_policy_of(observation.job.spec)
    restarts = draft.section("restarts")
    stable = _age_seconds(draft) >= policy.reset_after_seconds
    failures = 1 + (0 if stable else int(restarts.get("consecutiveFailures", 0)))
    restarts["consecutiveFailures"] = failures
    restarts["lastReason"] = ending.reason
    draft.event(f"end/{number}", ending.reason, f"attempt {number} failed: {ending.text}", warning=True)
    exhausted = _exhausted(policy, failures, ending.reason)
    draft.replace(
        "lastFailure",
        {
            "attempt": number,
            "generation": draft.section("attempt").get("generation", 0),
            "time": format_time(draft.now),
            "reason": ending.reason,
            "message": ending.message,
            "remedy": ending.remedy,
            "fatal": ending.fatal or exhausted,
            "log": ending.log,
        },
    )
    if ending.fatal:
        restarts.pop("nextRetryTime", None)
        draft.set_state(JobState.FAILED, reason=ending.reason, message=ending.text)
    elif exhausted:
        restarts.pop("nextRetryTime", None)
        message = f"{failures} failures in a row, the last: {ending.text}; then raise spec.restartNonce"
        draft.event(f"limit/{number}", "RestartLimitReached", message, warning=True)
        draft.set_state(JobState.FAILED, reason="RestartLimitReached", message=message)
    else:
        delay = backoff_seconds(policy, failures)
        restarts["total"] = restarts.get("total", 0) + 1
        restarts["nextRetryTime"] = format_time(draft.now + timedelta(seconds=delay))
        message = f"attempt {number} failed: {ending.text}; the next one starts in {delay} s"
        draft.event(f"retry/{number}", "RestartScheduled", f"the next attempt starts in {delay} s")
        draft.set_state(JobState.RESTARTING, reason=ending.reason, message=message)


def _exhausted(policy: RestartPolicy, failures: int, reason: str) -> bool:
    limit = policy.max_consecutive_failures
    if not limit and reason == errors.TransformFailed.reason:
        limit = TRANSFORM_FAILURES
    return 0 < limit <= failures


def _judge_conditions(draft: StatusDraft, ending: Ending) -> None:
    if ending.reason in KAFKA_REASONS:
        draft.condition(ConditionType.KAFKA_REACHABLE, ConditionStatus.FALSE, reason=ending.reason, message=ending.text)
    if ending.reason in STATE_REASONS:
        draft.condition(ConditionType.STATE_VALID, ConditionStatus.FALSE, reason=ending.reason, message=ending.text)


def _age_seconds(draft: StatusDraft) -> float:
    """Seconds since the attempt was started."""
    started = parse_time(draft.section("attempt").get("startedAt"))
    return (draft.now - started).total_seconds() if started is not None else 0.0
