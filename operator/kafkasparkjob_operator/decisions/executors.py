"""Counts the executors of the running attempt. Says since when none runs, and which of them failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.plan import NumberFailure
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import StatusDraft
from sparkapp.model.report import Report

GRACE_SECONDS = 30.0
"""Spark replaces a lost executor. A job without any executor for this time reads nothing."""
PENDING = JobReason.EXECUTORS_PENDING
"""Reason of an attempt with fewer executors than it asks for, where the cause is known or no executor runs."""
MAX_FAILURE_EVENTS = 20
"""Events of an attempt. Executors that fail at once are replaced every few seconds."""
_AVAILABLE = ConditionType.EXECUTORS_AVAILABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCount:
    """The result of a count.

    :param numbered: failures that the status counts from now on.
    :param look_again_after: seconds after which time alone changes the result of :func:`without_executors`, or None.
    """

    numbered: tuple[NumberFailure, ...]
    look_again_after: float | None = None


def count_executors(draft: StatusDraft, executors: Sequence[PodView], *, started: bool) -> ExecutorCount:
    """Writes ``status.executors`` and ExecutorsAvailable, and an event for each executor that failed.

    Called by the state machine for the pods of an attempt whose driver is alive.

    :param started: the driver's container runs, so that executors are expected.
    """
    section = draft.section("executors")
    section["running"] = sum(pod.phase == "Running" and not pod.finished for pod in executors)
    numbered = _tell_failures(draft, executors)
    if section["running"] or section.get("desired") == 0:
        draft.condition(_AVAILABLE, ConditionStatus.TRUE, reason="ExecutorsRunning")
        return ExecutorCount(numbered=numbered)
    if not started:
        _not_expected(draft)
        return ExecutorCount(numbered=numbered)
    draft.condition(_AVAILABLE, ConditionStatus.FALSE, reason="NoExecutors", message="no executor of the attempt runs")
    left = GRACE_SECONDS - _seconds_without(draft)
    return ExecutorCount(numbered=numbered, look_again_after=left if left > 0 else None)


def forget_executors(draft: StatusDraft) -> None:
    """No executor is counted: the attempt's driver is gone, or its node is lost. Called by the state machine."""
    draft.section("executors")["running"] = 0
    _not_expected(draft)


def _not_expected(draft: StatusDraft) -> None:
    message = "no driver is known to run, so no executors are expected"
    draft.condition(_AVAILABLE, ConditionStatus.UNKNOWN, reason="NotRunning", message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Why an attempt has fewer executors than it asks for.

    :param cause: the last part of a message; empty where nothing is known, or no executor is missing.
    :param refused: Kubernetes refuses their pods, by the driver's report. Spark asks again until it does not.
    """

    cause: str = ""
    refused: bool = False


def missing_executors(draft: StatusDraft, executors: Sequence[PodView], report: Report | None) -> Missing:
    """What refuses or holds up executors: the API server, the scheduler or a kubelet.

    Called after :func:`count_executors`. A refusal that the driver still reports while all executors run is over.
    """
    section = draft.section("executors")
    desired = section.get("desired")
    if isinstance(desired, int) and section["running"] >= desired:
        return Missing()
    refused = report.executors_refused if report is not None else ""
    cause = f"; Kubernetes refuses executors: {refused}" if refused else ""
    waiting = [pod for pod in executors if pod.waiting_reason and not pod.finished]
    if waiting:
        first = waiting[0]
        cause += f"; {len(waiting)} executor(s) wait: {first.name}: {first.waiting_reason}: {first.waiting_message}"
    return Missing(cause=cause, refused=bool(refused))


def without_executors(draft: StatusDraft, driver: PodView, missing: Missing, job: JobKey) -> str:
    """The message about a driver that has had no executor for too long, with an event; empty where it has executors.

    Called for a driver that reports to run. A refusal is no short gap, and is shown at once.
    """
    since = draft.since(_AVAILABLE, ConditionStatus.FALSE)
    if since is None or not (missing.refused or _seconds_without(draft) >= GRACE_SECONDS):
        return ""
    command = f"kubectl logs {driver.name} -n {job.namespace}"
    message = f"attempt {driver.attempt} reads nothing: it has had no executor since {since}" + (
        missing.cause or f"; find the cause in the log of the driver: {command}"
    )
    draft.event(f"executors/{driver.attempt}/{since}", PENDING, message, warning=True)
    return message


def tell_refusal(draft: StatusDraft, driver: PodView, missing: Missing) -> None:
    """An event for each refusal of an attempt that is another than the last but for its numbers."""
    if missing.refused:
        without_numbers = "".join(each for each in missing.cause if not each.isdigit())
        message = f"attempt {driver.attempt} has fewer executors than it asks for{missing.cause}"
        draft.event(f"refused/{driver.attempt}/{without_numbers}", PENDING, message, warning=True)


def _seconds_without(draft: StatusDraft) -> float:
    """At least 0: a clock that was set back must not make the wait longer."""
    since = parse_time(draft.since(_AVAILABLE, ConditionStatus.FALSE))
    return max(0.0, (draft.now - since).total_seconds()) if since is not None else 0.0


def _tell_failures(draft: StatusDraft, executors: Sequence[PodView]) -> tuple[NumberFailure, ...]:
    """Counts each failed pod once: its number is on the pod before the count is in the status."""
    # A pod that is being deleted was stopped: by Spark, with its node, or with the attempt.
    failed = sorted((pod for pod in executors if _has_failed(pod) and not pod.deleting), key=lambda pod: pod.name)
    section, numbered = draft.section("executors"), []
    count = max([section.get("failed", 0), *(pod.failure for pod in failed)])
    for pod in failed:
        number = pod.failure
        if not number:
            count += 1
            number = count
            numbered.append(NumberFailure(name=pod.name, uid=pod.uid, number=number))
        if number <= MAX_FAILURE_EVENTS:
            message = _failure(pod)
            if number == MAX_FAILURE_EVENTS:
                message += "; status.executors.failed counts further failures of this attempt"
            draft.event(f"executor/{pod.uid}", JobReason.EXECUTOR_FAILED, message, warning=True)
    if count:
        section["failed"] = count
    return tuple(numbered)


def _has_failed(pod: PodView) -> bool:
    return pod.phase == "Failed" or (pod.ended and pod.exit_code != 0)


def _failure(pod: PodView) -> str:
    code = "" if pod.exit_code is None else f" with exit status {pod.exit_code}"
    if pod.stopped_reason == "OOMKilled":
        return (
            f"executor {pod.name} was killed{code}: it used more memory than its container's limit;"
            " raise spec.executor.memoryOverhead"
        )
    reason = f": {pod.stopped_reason}" if pod.stopped_reason else ""
    detail = f": {pod.stopped_message}" if pod.stopped_message else ""
    return f"executor {pod.name} ended{code}{reason}{detail}; Spark replaces it while the driver runs"
