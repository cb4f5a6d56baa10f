"""How an attempt ended: by its termination message, by the pod's status, or by the absence of the pod."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.reasons import JobReason, StopReason
from sparkapp.model import names, report
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import TransformFailed

EVENTS = "kubectl get events -n NAMESPACE --field-selector involvedObject.name=POD"
"""The command for the events of the driver's pod, which Kubernetes keeps for an hour after the pod is gone."""
_SIGNALLED = 128
"""Exit statuses above it are signals, as shells and container runtimes count them."""


class EndingKind(StrEnum):
    """``status.attempt.outcome``."""

    DRAINED = "Drained"
    FINISHED = "Finished"
    """A bounded job has read to its end."""
    FAILED = "Failed"
    KILLED = "Killed"
    """Ended from outside, without a termination message: out of memory, evicted, node lost. Or stopped by request, but
    the state does not say that it had recovered."""
    MISSING = "Missing"
    """Its pod is gone, and the state document does not say that it drained."""


ORDERLY = frozenset({str(EndingKind.DRAINED), str(EndingKind.FINISHED)})
"""Outcomes of attempts that left no transaction open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of an attempt.

    :param log: the end of the driver's log, from the driver or the kubelet; untrusted.
    """

    outcome: EndingKind
    reason: str
    message: str
    remedy: str = ""
    fatal: bool = False
    log: str = ""

    @property
    def text(self) -> str:
        """Message and remedy in a single line."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


def ending_of(
    driver: PodView | None, *, attempt: int, document: CheckpointDocument | None, unclaimed: bool = False
) -> Ending:
    """Classifies the end of an attempt whose driver has finished or is gone.

    A standby that is stopped before it sees its activation ends in order and recovers nothing. So a driver's word
    counts only where the document is its attempt's, or where nothing was open before it.

    :param document: the state document, which says whether the attempt drained even where the pod is gone. None where
        there is none or it cannot be read.
    :param unclaimed: no attempt has claimed the state yet, so no attempt has begun a transaction.
    """
    drained = document is not None and document.attempt == attempt and document.drained
    if drained and document is not None and document.finished:
        return Ending(
            outcome=EndingKind.FINISHED,
            reason=JobReason.FINISHED,
            message=f"read to its end; checkpoint {document.checkpoint_id} is the last",
        )
    if driver is None:
        if drained and document is not None:
            return Ending(
                outcome=EndingKind.DRAINED,
                reason=JobReason.DRAINED,
                message=f"stopped after checkpoint {document.checkpoint_id}",
            )
        return Ending(
            outcome=EndingKind.MISSING,
            reason=JobReason.DRIVER_MISSING,
            message=f"the driver pod of attempt {attempt} was deleted before it reported why it stopped",
            remedy=f"find out why it was deleted: {EVENTS}",
        )
    termination = report.decode_termination(driver.termination_message)
    if termination is not None and termination.outcome is report.AttemptOutcome.FAILED:
        return Ending(
            outcome=EndingKind.FAILED,
            reason=termination.reason or JobReason.DRIVER_FAILED,
            message=termination.message,
            remedy=termination.remedy,
            fatal=termination.fatal,
            log=termination.log,
        )
    if (termination is not None and driver.exit_code == 0) or drained:
        recovered = unclaimed if document is None else document.attempt == attempt or document.drained
        return _drained(termination) if recovered else _not_recovered(attempt)
    # The kubelet gives the log's end instead (terminationMessagePolicy: FallbackToLogsOnError).
    log = driver.termination_message[-report.MAX_TERMINATION_BYTES :] if termination is None else ""
    return replace(_without_termination(driver), log=log)


def silent_ending(attempt: int, reason: StopReason) -> Ending:
    """The operator has ended an attempt whose driver no longer sent reports, or no longer made progress.

    :param reason: of the stop.
    """
    no_longer = "sent reports" if reason is StopReason.HEARTBEAT_TIMEOUT else "made progress"
    return Ending(
        outcome=EndingKind.KILLED,
        reason=reason,
        message=f"the operator ended attempt {attempt}: its driver no longer {no_longer}",
        remedy=f"check its node: kubectl get nodes; and its events: {EVENTS}",
    )


def with_command(ending: Ending, job: JobKey, attempt: int) -> Ending:
    """The ending with the job's names in its commands, and with a command for the log where no remedy is known.

    The command reads ``status.lastFailure``, because the driver's pod is deleted before the next attempt starts.
    """
    events = EVENTS.replace("NAMESPACE", job.namespace).replace("POD", names.driver_pod(job.name, attempt))
    remedy = ending.remedy.replace(EVENTS, events).replace("-n NAMESPACE", f"-n {job.namespace}")
    ending = replace(ending, remedy=remedy)
    if not ending.log or (ending.remedy and ending.reason != TransformFailed.reason):
        return ending
    command = f"kubectl get ksj {job.name} -n {job.namespace} -o jsonpath='{{.status.lastFailure.log}}'"
    return replace(ending, remedy=f"{ending.remedy}; read the end of its log: {command}".removeprefix("; "))


def _drained(termination: report.Termination | None) -> Ending:
    message = termination.message if termination is not None else "stopped after its last checkpoint"
    rotated = termination is not None and termination.reason == report.CREDENTIALS_CHANGED
    reason = report.CREDENTIALS_CHANGED if rotated else JobReason.DRAINED
    return Ending(outcome=EndingKind.DRAINED, reason=reason, message=message)


def _not_recovered(attempt: int) -> Ending:
    message = f"the driver was stopped, and the state does not say that attempt {attempt} had recovered"
    return Ending(outcome=EndingKind.KILLED, reason=JobReason.NOT_RECOVERED, message=message)


def _without_termination(driver: PodView) -> Ending:
    reason = driver.stopped_reason or JobReason.DRIVER_FAILED
    code = "" if driver.exit_code is None else f" with exit status {driver.exit_code}"
    if reason == JobReason.OOM_KILLED:
        return Ending(
            outcome=EndingKind.KILLED,
            reason=reason,
            message=f"the driver was killed{code}: it used more memory than its container's limit",
            remedy="raise spec.driver.memoryOverhead",
        )
    if reason == "Error" and driver.exit_code is not None and driver.exit_code > _SIGNALLED:
        code = f" by signal {driver.exit_code - _SIGNALLED}"
        return Ending(
            outcome=EndingKind.KILLED,
            reason=JobReason.DRIVER_KILLED,
            message=f"the driver was killed{code} and left no termination message",
            remedy=f"find out what killed it: {EVENTS}",
        )
    if reason in {"Error", "Completed"}:
        return Ending(
            outcome=EndingKind.KILLED,
            reason=JobReason.DRIVER_FAILED,
            message=f"the driver ended{code} and left no termination message",
        )
    detail = f": {driver.stopped_message}" if driver.stopped_message else ""
    return Ending(outcome=EndingKind.KILLED, reason=reason, message=f"the driver was stopped{code}{detail}", remedy="")
