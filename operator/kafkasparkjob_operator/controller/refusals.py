"""Requests that Kubernetes refuses: their errors, status and events."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.decisions.attempts import unused_claims
from kafkasparkjob_operator.decisions.plan import AskForScale, Plan, StartAttempt
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectRefused
from kafkasparkjob_operator.observation.observation import JobResource, Observation, recorded_number
from kafkasparkjob_operator.observation.quota_view import EXCEEDED
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from sparkapp.model import commands, names

TAKEN = {"ConfigMap": JobReason.CONFIG_MAP_NAME_TAKEN, "Pod": JobReason.POD_NAME_TAKEN}
"""The reason of the status, by the kind of the foreign object."""
UNREPORTED_FAILURES = 1
"""Consecutive failures of requests before status and events report them: a quorum may be lost for a moment."""


class ObjectAwaitsCollection(ClusterError):
    """An object of a deleted job of the same name still exists; Kubernetes is about to collect it."""

    reason = JobReason.AWAITING_COLLECTION


class SecretExists(ClusterError):
    """A Secret of the attempt's name exists, which the operator may not read."""

    reason = "SecretExists"


class SnapshotNotReady(ClusterError):
    """The snapshot that the next attempt begins at has no checkpoint."""

    reason = JobReason.SNAPSHOT_NOT_READY


class CodeMissing(ClusterError):
    """The ConfigMap of the user's modules does not exist, and the operator has no copy of it."""

    reason = JobReason.CODE_MISSING


class NameTaken(ClusterError):
    """A foreign object has a name of the next attempt: that of its ConfigMap, or of its driver's pod."""

    reason = "NameTaken"

    def __init__(self, kind: str, name: str, namespace: str) -> None:
        super().__init__(
            f"the attempt is skipped: the operator did not create {kind} {name}, which has a name of the attempt;"
            f" delete it: {commands.delete(kind, name, namespace)}"
        )
        self.kind, self.name = kind, name


AT_ONCE = (CodeMissing, NameTaken, SnapshotNotReady)
"""Failures that status and events report at once."""


class Failures:
    """Consecutive failures of the requests of each job, and the names that foreign objects take from its attempts."""

    def __init__(self) -> None:
        self._counts: Counter[JobKey] = Counter()
        self._taken: dict[JobKey, frozenset[str]] = {}

    def lasts(self, key: JobKey, error: ClusterError) -> bool:
        """Counts a failure until :meth:`ended`; True where it is worth a report: a refusal, or not the first failure.

        Called by the reconciler.
        """
        self._counts[key] += 1
        if isinstance(error, NameTaken):
            self._taken[key] = self.taken(key) | {error.name}
        return isinstance(error, ObjectRefused) or self._counts[key] > UNREPORTED_FAILURES

    def taken(self, key: JobKey) -> frozenset[str]:
        return self._taken.get(key, frozenset())

    def looked(self, observation: Observation, the_plan: Plan) -> None:
        """Ends the count where a live look finds that no failed request has to be repeated.

        A request whose answer was lost may have succeeded. A claim without a driver belongs to a start that failed:
        then the count stays until the next try.
        """
        live = observation.live
        left = the_plan.starts or any(isinstance(action, AskForScale | StartAttempt) for action in the_plan.actions)
        if live is not None and not left and not unused_claims(observation, live):
            self.ended(observation.job.identity.key)

    def ended(self, key: JobKey) -> None:
        """A request of the job has succeeded."""
        self._counts.pop(key, None)

    def forget(self, key: JobKey) -> None:
        """The job is gone."""
        self.ended(key)
        self._taken.pop(key, None)


def not_started(job: JobResource, error: ClusterError, now: datetime) -> tuple[dict[str, Any], JobEvent]:
    """Status and event for an attempt that Kubernetes does not let start.

    Called by the reconciler, which continues to retry.
    """
    text, remedy = error.message, ""
    if isinstance(error, ObjectRefused):  # a quota, a policy, a webhook, a missing permission
        reason = JobReason.START_REFUSED
        if EXCEEDED in text:
            reason = JobReason.QUOTA_EXCEEDED
            look = f"kubectl describe quota -n {job.identity.namespace}"
            remedy = f"Raise the quota, or lower what the job asks for: {look}"
        text = f"Kubernetes refused an object of the next attempt: {text}"
    elif isinstance(error, NameTaken):
        reason = TAKEN[error.kind]
    elif isinstance(error, CodeMissing | ObjectAwaitsCollection | SnapshotNotReady):
        reason = error.reason
    else:  # the job is not the cause
        reason = JobReason.START_FAILED
        text = f"Kubernetes failed to create an object of the next attempt; the operator retries: {text}"
    draft = StatusDraft(job, now)
    attempt = draft.section("attempt").get("id", 0)
    event = JobEvent(
        occurrence=f"refused/{job.generation}/{attempt}", reason=reason, message=text, remedy=remedy, warning=True
    )
    state = JobState.RESTARTING if attempt else JobState.PENDING
    draft.set_state(state, reason=reason, message=event.text, phase=Phase.PENDING)
    return draft.finish(), event


def refused_hold(message: str) -> JobEvent:
    """Event for a resource without the operator's finalizer: the operator lacks the right."""
    text = f"the deletion of this job will not wait for its transactions: {message}"
    remedy = "Upgrade the chart to this release, which grants the right"
    return JobEvent(
        occurrence="hold-refused", reason=JobReason.FINALIZER_REFUSED, message=text, remedy=remedy, warning=True
    )


def no_last_snapshot(message: str) -> JobEvent:
    """Event for a job that is deleted without the snapshot that it asks for."""
    text = f"the job is deleted without a snapshot (spec.deletion.snapshot): {message}"
    return JobEvent(occurrence="last-snapshot", reason=JobReason.SNAPSHOT_FAILED, message=text, warning=True)


def refused_scale(job: JobResource, action: AskForScale, message: str) -> JobEvent:
    """Event for a driver that cannot be asked for a rescale in place: another attempt makes the change."""
    attempt, namespace = recorded_number(job), job.identity.namespace
    text = (
        f"attempt {attempt} cannot be asked for parallelism {action.parallelism}, so another attempt will follow:"
        f" {message}; repeat the request without effect: kubectl annotate pod {action.name} -n {namespace}"
        f" {names.ANNOTATION_PARALLELISM}={action.parallelism} --overwrite --dry-run=server"
    )
    occurrence = f"rescale-refused/{job.generation}/{attempt}"
    return JobEvent(occurrence=occurrence, reason=JobReason.RESCALE_REFUSED, message=text, warning=True)


def refused_expiry(job: JobResource, message: str) -> JobEvent:
    """Event for a Finished job that the operator may not delete."""
    command = commands.delete("ksj", job.identity.name, job.identity.namespace)
    return JobEvent(
        occurrence="expiry-refused", reason=JobReason.EXPIRY_REFUSED,
        message=f"the job is not deleted after spec.ttlSecondsAfterFinished: {message}",
        remedy=f"Delete it: {command}", warning=True,
    )  # fmt: skip


def refused_standby(job: JobResource, message: str) -> JobEvent:
    """Event for a standby driver that could not be created: a change of the resource does not wait for it."""
    attempt = recorded_number(job)
    return JobEvent(
        occurrence=f"successor-refused/{job.generation}/{attempt}", reason=JobReason.SUCCESSOR_REFUSED,
        message=f"attempt {attempt} has no standby, because none could be created: {message}", warning=True,
    )  # fmt: skip


def started_standby(action: StartAttempt) -> JobEvent:
    """Event for a standby driver that exists from now on."""
    message = f"attempt {action.attempt} starts as a standby and waits for its activation"
    return JobEvent(occurrence=f"successor/{action.attempt}", reason=JobReason.SUCCESSOR_STARTED, message=message)
