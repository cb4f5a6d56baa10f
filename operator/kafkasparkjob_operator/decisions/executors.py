"""The executors of the running attempt: their number, since when there is none, and which of them failed."""

from __future__ import annotations

from collections.abc import Sequence

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.status import StatusDraft

GRACE_SECONDS = 30.0
"""Spark replaces a lost executor. A job without any executor for this time reads nothing."""
MAX_FAILURE_EVENTS = 20
"""Events of an attempt. Executors that fail at once are replaced every few seconds."""
MAX_REMEMBERED = 100
"""Failed pods that are remembered; Spark deletes them."""

_FAILED_PODS = "failedPods"
_NONE_SINCE = "noneSince"


def count_executors(draft: StatusDraft, executors: Sequence[PodView], *, started: bool) -> float | None:
    """Writes ``status.executors``, and an event for each executor that failed since the last look.

    Called by the state machine for the pods of an attempt whose driver is alive.

    :param started: the driver's container runs, so that executors are expected.
    :returns: seconds after which time alone changes the result of :func:`without_executors`, or None.
    """
    section = draft.section("executors")
    section["running"] = sum(pod.phase == "Running" and not pod.finished for pod in executors)
    _tell_failures(draft, executors)
    if section["running"] or not started or section.get("desired") == 0:
        section.pop(_NONE_SINCE, None)
        return None
    section.setdefault(_NONE_SINCE, format_time(draft.now))
    left = GRACE_SECONDS - _seconds_without(draft)
    return left if left > 0 else None


def forget_executors(draft: StatusDraft) -> None:
    """No executor is counted: the attempt's driver is gone. Called by the state machine."""
    section = draft.section("executors")
    section["running"] = 0
    section.pop(_NONE_SINCE, None)


def without_executors(draft: StatusDraft, driver: PodView, executors: Sequence[PodView], job: JobKey) -> str:
    """The message about a driver that has had no executor for too long, with an event; empty where it has executors.

    Called for a driver that reports to run.
    """
    section = draft.section("executors")
    since = section.get(_NONE_SINCE)
    if since is None or _seconds_without(draft) < GRACE_SECONDS:
        return ""
    command = f"kubectl logs {driver.name} -n {job.namespace}"
    message = f"attempt {driver.attempt} reads nothing: it has had no executor since {since}" + (
        executors_waiting(executors) or f"; find the cause in the log of the driver, for instance a quota: {command}"
    )
    draft.event(f"executors/{driver.attempt}/{since}", "ExecutorsPending", message, warning=True)
    return message


def executors_waiting(executors: Sequence[PodView]) -> str:
    """Why executors do not start, as the scheduler or the kubelet says; empty where all of them start."""
    waiting = [pod for pod in executors if pod.waiting_reason and not pod.finished]
    if not waiting:
        return ""
    first = waiting[0]
    return f"; {len(waiting)} executor(s) wait: {first.name}: {first.waiting_reason}: {first.waiting_message}"


def _seconds_without(draft: StatusDraft) -> float:
    """At least 0: a clock that was set back must not make the wait longer."""
    since = parse_time(draft.section("executors").get(_NONE_SINCE))
    return max(0.0, (draft.now - since).total_seconds()) if since is not None else 0.0


def _tell_failures(draft: StatusDraft, executors: Sequence[PodView]) -> None:
    # A pod that is being deleted was stopped: by Spark, with its node, or with the attempt.
    failed = {pod.uid: pod for pod in executors if _has_failed(pod) and not pod.deleting}
    section = draft.section("executors")
    known = [uid for uid in section.pop(_FAILED_PODS, []) if uid in failed]
    for uid, pod in sorted(failed.items(), key=lambda item: item[1].name):
        if uid in known or len(known) >= MAX_REMEMBERED:
            continue
        known.append(uid)
        section["failed"] = section.get("failed", 0) + 1
        if section["failed"] <= MAX_FAILURE_EVENTS:
            message = _failure(pod)
            if section["failed"] == MAX_FAILURE_EVENTS:
                message += "; status.executors.failed counts further failures of this attempt"
            draft.event(f"executor/{uid}", "ExecutorFailed", message, warning=True)
    if known:
        section[_FAILED_PODS] = known


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
