"""How an attempt ended: by its own last word, by the kubelet's account, or by its absence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.reasons import StopReason
from sparkapp.model import report
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import TransformFailed
from sparkapp.model.job import Sink, TransactionTimeout
from sparkapp.model.semantic import Semantic

_SIGNALLED = 128
"""Exit statuses above it are signals, as shells and container runtimes count them."""


class Outcome(StrEnum):
    """``status.attempt.outcome``."""

    DRAINED = "Drained"
    FINISHED = "Finished"
    """A bounded job has read all that it is to read."""
    FAILED = "Failed"
    KILLED = "Killed"
    """Ended from outside, without a last word: out of memory, evicted, node lost."""
    MISSING = "Missing"
    """Its pod is gone, and the state does not say that it drained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of an attempt.

    :param log: the end of the driver's log, by its own account or the kubelet's; untrusted.
    """

    outcome: Outcome
    reason: str
    message: str
    remedy: str = ""
    fatal: bool = False
    log: str = ""

    @property
    def text(self) -> str:
        """One line: what happened and what to do."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


def left_by(outcome: str, *, attempt: int, job: JobKey, sink: Sink | None) -> str:
    """What to say of a job at rest whose last attempt did not end in order; empty where it did, or there was none.

    Called by the state machine for a suspended job, which no next attempt tidies up after for now.

    :param outcome: ``status.attempt.outcome``.
    :param sink: of the resource's spec; None where that is not valid.
    """
    if outcome in {"", Outcome.DRAINED, Outcome.FINISHED}:
        return ""
    text = f"attempt {attempt} did not drain in order ({outcome})"
    if sink is not None and sink.semantic is not Semantic.EXACTLY_ONCE:
        return f"{text}: what it wrote since its last checkpoint is written again by the next one"
    never = sink is not None and sink.transaction_timeout is TransactionTimeout.NEVER
    until = "somebody ends it (sink.transactionTimeout: Never)" if never else "sink.transactionTimeoutSeconds is over"
    return (
        f"{text}: a transaction that it left open may hold back read_committed readers until {until};"
        f" `python -m sparkapp txn list --namespace {job.namespace}"
        f" --job {job.name}` shows it, and the next attempt settles it"
    )


def ending_of(driver: PodView | None, *, attempt: int, document: CheckpointDocument | None) -> Ending:
    """Classifies the end of an attempt whose driver has finished or is gone.

    :param document: the state document, which says whether the attempt drained even where the pod is gone.
    """
    drained = document is not None and document.attempt == attempt and document.drained
    if drained and document is not None and document.finished:
        return Ending(
            outcome=Outcome.FINISHED,
            reason="Finished",
            message=f"read to its end; checkpoint {document.checkpoint_id} is the last",
        )
    if driver is None:
        if drained and document is not None:
            return Ending(
                outcome=Outcome.DRAINED, reason="Drained", message=f"stopped after checkpoint {document.checkpoint_id}"
            )
        return Ending(
            outcome=Outcome.MISSING,
            reason="DriverMissing",
            message=f"the driver pod of attempt {attempt} is gone, and it left no last word",
            remedy="see why it was deleted: kubectl get events",
        )
    last_word = report.decode_termination(driver.last_words)
    if last_word is not None and last_word.outcome is report.Outcome.FAILED:
        return Ending(
            outcome=Outcome.FAILED,
            reason=last_word.reason or "DriverFailed",
            message=last_word.message,
            remedy=last_word.remedy,
            fatal=last_word.fatal,
            log=last_word.log,
        )
    if (last_word is not None and driver.exit_code == 0) or drained:
        message = last_word.message if last_word is not None else "stopped after its last checkpoint"
        return Ending(outcome=Outcome.DRAINED, reason="Drained", message=message)
    # The kubelet gives the log's end instead (terminationMessagePolicy: FallbackToLogsOnError).
    log = driver.last_words[-report.MAX_TERMINATION_BYTES :] if last_word is None else ""
    return replace(_without_last_word(driver), log=log)


def silent_ending(attempt: int) -> Ending:
    """The operator has ended an attempt whose driver sent no reports any more."""
    return Ending(
        outcome=Outcome.KILLED,
        reason=str(StopReason.HEARTBEAT_TIMEOUT),
        message=f"the driver of attempt {attempt} sent no reports any more, and the operator ended it",
        remedy="see what became of its node: kubectl get nodes; kubectl get events",
    )


def with_command(ending: Ending, job: JobKey) -> Ending:
    """The ending with a command that shows its log, where no better remedy is known.

    The driver's pod may be gone when somebody types it: the command reads ``status.lastFailure``.
    """
    if not ending.log or (ending.remedy and ending.reason != TransformFailed.reason):
        return ending
    command = f"kubectl get ksj {job.name} -n {job.namespace} -o jsonpath='{{.status.lastFailure.log}}'"
    return replace(ending, remedy=f"{ending.remedy}; its log ends: {command}".removeprefix("; "))


def _without_last_word(driver: PodView) -> Ending:
    reason = driver.stopped_reason or "DriverFailed"
    code = "" if driver.exit_code is None else f" with exit status {driver.exit_code}"
    if reason == "OOMKilled":
        return Ending(
            outcome=Outcome.KILLED,
            reason=reason,
            message=f"the driver used more memory than its container has, and was killed{code}",
            remedy="raise spec.driver.memory",
        )
    if reason == "Error" and driver.exit_code is not None and driver.exit_code > _SIGNALLED:
        code = f" by signal {driver.exit_code - _SIGNALLED}"
        return Ending(
            outcome=Outcome.KILLED,
            reason="DriverKilled",
            message=f"the driver was killed{code} and left no last word",
            remedy="see what killed it: kubectl get events, or the node's log",
        )
    if reason in {"Error", "Completed"}:
        return Ending(
            outcome=Outcome.KILLED,
            reason="DriverFailed",
            message=f"the driver ended{code} and left no last word",
        )
    detail = f": {driver.stopped_message}" if driver.stopped_message else ""
    return Ending(outcome=Outcome.KILLED, reason=reason, message=f"the driver was stopped{code}{detail}", remedy="")
