"""The consequence of an attempt's end for the next attempt: none, a pause, or a job that is Failed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.decisions.attempts import current_attempt, is_unclaimed
from kafkasparkjob_operator.decisions.checks.causes import digest_of_cause
from kafkasparkjob_operator.decisions.endings import (
    Ending,
    EndingKind,
    ending_of,
    silent_ending,
    with_command,
)
from kafkasparkjob_operator.decisions.revisions.refusal import has_gone_back, how_to_restart
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.observation import Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.resources.driver_pod import TERMINATION_GRACE_SECONDS
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import OF_THE_OPERATOR, JobReason, StartReason, StopReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import RestartPolicy, restart_policy_of
from sparkapp.model import errors
from sparkapp.model.report import CREDENTIALS_CHANGED

TRANSFORM_FAILURES = 6
"""Consecutive failures, where ``maxConsecutiveFailures`` is 0: the same record fails again. A Job's backoffLimit."""
QUICK_END_SECONDS = 60
"""After an attempt that drained unasked within this time, the next attempt starts after a pause, not in a loop."""

START_PERIOD_SECONDS = 10
"""Shortest period between starts of attempts that end by themselves, under any policy: the kubelet's first pause of a
container in a crash loop. Each start creates a pod and some ten requests, which other jobs wait for."""
QUICK_RESTARTS = 3
"""First restarts of a job without this period, so that a single failure costs no time."""


def record_ending(draft: StatusDraft, observation: Observation, live: Live, driver: PodView | None) -> None:
    """Records once how the current attempt ended, counts the failure, and sets when the next attempt may start.

    Called by the state machine when the driver has finished or is gone, before its pod is deleted.
    """
    number = current_attempt(observation)
    if driver is None:
        driver = _ended_driver(observation, number)
    ending = ending_of(driver, attempt=number, document=live.state.document, unclaimed=is_unclaimed(draft, live))
    attempt = draft.section("attempt")
    lost = attempt.get("stopReason") in OF_THE_OPERATOR
    if lost and ending.outcome not in {EndingKind.DRAINED, EndingKind.FINISHED}:
        ending = silent_ending(number, StopReason(attempt["stopReason"]))
    ending = with_command(ending, observation.job.identity.key, number)
    attempt["outcome"] = str(ending.outcome)
    _judge_conditions(draft, ending)
    if ending.outcome is EndingKind.FINISHED:
        draft.section("restarts").update(consecutiveFailures=0)
        return
    if attempt.get("stopReason") and not (lost and ending.outcome is EndingKind.KILLED):
        document = live.state.document
        began = document is not None and document.attempt >= number
        if began and ending.outcome is not EndingKind.DRAINED:
            draft.event(
                f"end/{number}", JobReason.NOT_DRAINED, f"attempt {number} did not drain: {ending.text}", warning=True
            )
        return
    if ending.outcome is EndingKind.DRAINED and attempt.get("startReason") == StartReason.DELETED:
        return  # its only task is done
    if ending.outcome is EndingKind.DRAINED:
        _drained_unasked(draft, observation, ending)
    else:
        _failed(draft, observation, live, ending)


def _ended_driver(observation: Observation, number: int) -> PodView | None:
    """The attempt's driver as a watch last saw it: finished, and deleted before the operator's look."""
    seen = observation.ended_driver
    if seen is None or seen.attempt != number or seen.owner_uid != observation.job.identity.uid:
        return None
    return seen


def show_pods_going(draft: StatusDraft, pods: Sequence[PodView], attempt: int) -> None:
    """The driver has ended, and the next attempt waits until other pods of the job are gone, too.

    A bounded job that has read to its end stays Running until then.
    """
    gone = [pod.gone_by for pod in pods if pod.gone_by is not None]
    ends = max(gone, default=draft.now + timedelta(seconds=TERMINATION_GRACE_SECONDS))
    draft.enter(Phase.WAITING, deadline=ends)
    if draft.state not in {"", JobState.PENDING, JobState.STARTING, JobState.RUNNING}:
        return
    state = JobState.RESTARTING if attempt else JobState.PENDING
    if draft.section("attempt").get("outcome") == EndingKind.FINISHED:
        state = JobState.RUNNING
    message = f"the next attempt waits until {len(pods)} pod(s) are gone: {pods[0].name}"
    draft.set_starting(state, reason=JobReason.WAITING_FOR_PODS, message=message, phase=Phase.WAITING, deadline=ends)


def note_stability(draft: StatusDraft, spec: Mapping[str, Any]) -> float | None:
    """Resets the count of failures when an attempt has run for ``resetAfterSeconds``.

    :returns: seconds until then; None where nothing is to be reset.
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


def _drained_unasked(draft: StatusDraft, observation: Observation, ending: Ending) -> None:
    number, restarts = current_attempt(observation), draft.section("restarts")
    rotated = ending.reason == CREDENTIALS_CHANGED
    quick = not rotated and _age_seconds(draft) < QUICK_END_SECONDS
    pause = restart_policy_of(observation.job.spec).initial_seconds if quick else 0
    delay = _floor(draft, spread(pause, observation.job.identity.uid, number))
    restarts["total"] = restarts.get("total", 0) + 1
    restarts["lastReason"] = ending.reason
    retry = draft.now + timedelta(seconds=delay)
    restarts["nextRetryTime"] = format_time(retry)
    cause = "because its Kafka Secrets have new content" if rotated else "although the operator did not stop it"
    message = f"attempt {number} drained {cause}; the next attempt starts in {delay} s"
    draft.event(f"end/{number}", JobReason.RESTART_SCHEDULED, message)
    draft.set_state(JobState.RESTARTING, reason=ending.reason, message=message, phase=Phase.BACKING_OFF, deadline=retry)


def _failed(draft: StatusDraft, observation: Observation, live: Live, ending: Ending) -> None:
    number = current_attempt(observation)
    policy = restart_policy_of(observation.job.spec)
    restarts = draft.section("restarts")
    stable = _age_seconds(draft) >= policy.reset_after_seconds
    failures = 1 + (0 if stable else int(restarts.get("consecutiveFailures", 0)))
    restarts["consecutiveFailures"] = failures
    restarts["lastReason"] = ending.reason
    exhausted = _exhausted(policy, failures, ending.reason)
    if ending.fatal or exhausted:
        ending = _with_restart(draft, ending, observation.job.identity.key)
    draft.event(f"end/{number}", ending.reason, f"attempt {number} failed: {ending.text}", warning=True)
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
            **digest_of_cause(ending.reason, live),
        },
    )
    if ending.fatal:
        restarts.pop("nextRetryTime", None)
        draft.set_state(JobState.FAILED, reason=ending.reason, message=ending.text, phase=Phase.FAILED)
    elif exhausted:
        restarts.pop("nextRetryTime", None)
        message = f"restart limit reached: {failures} consecutive failures; the last failure: {ending.text}"
        draft.event(f"limit/{number}", JobReason.RESTART_LIMIT_REACHED, message, warning=True)
        draft.set_state(JobState.FAILED, reason=JobReason.RESTART_LIMIT_REACHED, message=message, phase=Phase.FAILED)
    else:
        delay = _floor(draft, spread(backoff_seconds(policy, failures), observation.job.identity.uid, number))
        restarts["total"] = restarts.get("total", 0) + 1
        retry = draft.now + timedelta(seconds=delay)
        restarts["nextRetryTime"] = format_time(retry)
        message = f"attempt {number} failed: {ending.text}; the next attempt starts in {delay} s"
        draft.event(f"retry/{number}", JobReason.RESTART_SCHEDULED, f"the next attempt starts in {delay} s")
        draft.set_state(
            JobState.RESTARTING, reason=ending.reason, message=message, phase=Phase.BACKING_OFF, deadline=retry
        )


def _with_restart(draft: StatusDraft, ending: Ending, job: JobKey) -> Ending:
    """The ending of a job that fails with it, with the command that starts the job again.

    A corrected spec starts the job by itself. So do corrected modules and a corrected state
    (:mod:`~kafkasparkjob_operator.decisions.checks.causes`). Every other correction needs the command. A driver whose
    remedy has it does not know that the job has gone back.
    """
    if "restartNonce" in ending.remedy and not has_gone_back(draft):
        return ending
    return replace(ending, remedy=f"{ending.remedy}; {how_to_restart(draft, job)}".removeprefix("; "))


def _exhausted(policy: RestartPolicy, failures: int, reason: str) -> bool:
    limit = policy.max_consecutive_failures
    if not limit and reason == errors.TransformFailed.reason:
        limit = TRANSFORM_FAILURES
    return 0 < limit <= failures


def _judge_conditions(draft: StatusDraft, ending: Ending) -> None:
    kind = errors.CONDITION_BY_REASON.get(ending.reason)
    if kind is not None:
        draft.condition(ConditionType(kind), ConditionStatus.FALSE, reason=ending.reason, message=ending.text)


def _age_seconds(draft: StatusDraft) -> float:
    """Seconds since the start of the attempt."""
    started = parse_time(draft.section("attempt").get("startedAt"))
    return (draft.now - started).total_seconds() if started is not None else 0.0


def _floor(draft: StatusDraft, delay: int) -> int:
    """The delay, or the rest of :data:`START_PERIOD_SECONDS` since the start of the attempt that ended.

    A crash loop is no faster under a policy without a pause, or with a short ``resetAfterSeconds``.
    """
    if draft.section("restarts").get("total", 0) < QUICK_RESTARTS:
        return delay
    missing = math.ceil(START_PERIOD_SECONDS - max(0.0, _age_seconds(draft)))
    return max(delay, missing)


def backoff_seconds(policy: RestartPolicy, failures: int) -> int:
    """Seconds after that number of consecutive failures (from 1): ``initial * multiplier^(failures - 1)``, capped."""
    delay = policy.initial_seconds
    for _ in range(failures - 1):
        delay *= policy.multiplier
        if delay >= policy.max_seconds:
            break
        if delay == 0 or policy.multiplier == 1:
            break
    return min(delay, policy.max_seconds)


def spread(seconds: int, uid: str, attempt: int) -> int:
    """The delay less up to a quarter, so that jobs that failed together do not start together.

    The same for each plan of the same failure. Delays below 4 s are kept.

    :param uid: of the resource. :param attempt: that failed.
    """
    share = int.from_bytes(hashlib.sha256(f"{uid}/{attempt}".encode()).digest()[:4]) / 2**32
    return seconds - int(share * (seconds // 4 + 1))
