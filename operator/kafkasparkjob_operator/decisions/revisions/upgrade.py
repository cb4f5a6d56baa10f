"""The change from a revision of a job to another: stable revisions, and the way back (ADR 85).

A revision is stable when an attempt of it has run for some time and has completed a checkpoint. A job goes back to its
stable revision once, while the new revision is not stable. Failures of Kafka and of the cluster are no reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.decisions.attempts import REVISION, current_attempt, record_of, started_generation
from kafkasparkjob_operator.decisions.endings import ORDERLY
from kafkasparkjob_operator.decisions.revisions.refusal import (
    FAILURES,
    OF_THE_POD,
    Cause,
    has_gone_back,
    is_refused,
    refuses_rescale,
    replaced_by_nothing,
)
from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.observation import AttemptRecord, Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.resources.acceptance import accepted_job
from kafkasparkjob_operator.resources.revisions import NO_PART
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import OF_THE_OPERATOR, JobReason, StopReason
from kafkasparkjob_operator.status.status import TARGET, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, DrainFallback, JobSettings, UpgradeMode
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CONDITION_BY_REASON, ConfigurationError
from sparkapp.model.report import DriverState, Report

STABLE = "stable"
"""``status``: the last revision that has become stable."""
DEADLINE = "deadline"
"""``status.target``: until when the revision has to be stable."""
IMAGE_SECONDS = 60.0
"""For which the kubelet refuses image or container of a new revision before the job goes back."""
LAST_CHECKPOINT_SECONDS = 5
"""Grace period of a driver that is stopped for ``LastCheckpoint``."""
_REQUESTS = frozenset({"restartNonce", "restore", "startFrom"})
"""Of :data:`NO_PART`: what another attempt is needed for."""
_OUTSIDE = OF_THE_OPERATOR | {
    str(JobReason.DRIVER_MISSING), str(JobReason.DRIVER_KILLED), str(JobReason.EXECUTORS_PENDING),
    str(JobReason.CHECKPOINT_STALLED), str(JobReason.NOT_RECOVERED), "Evicted", "NodeLost", "NodeShutdown",
    "Preempting", "Terminated", "DeadlineExceeded", "UnexpectedAdmissionError", "Unschedulable",
}  # fmt: skip
"""Reasons that say nothing about the revision, next to those of Kafka and of the state."""


def grace_of(desired: DesiredJob | None) -> int | None:
    """Grace period of a driver that is stopped for a change; None for that of its pod."""
    if desired is None:
        return None
    if desired.upgrade.mode is UpgradeMode.LAST_CHECKPOINT:
        return LAST_CHECKPOINT_SECONDS
    return desired.upgrade.drain_timeout_seconds


def note_stable(
    draft: StatusDraft,
    observation: Observation,
    desired: DesiredJob,
    report: Report | None,
    look: Callable[[], Live],
) -> float | None:
    """Writes that the attempt's revision is stable, once it is. Called by the state machine while a driver runs.

    :param look: for the document, by which a later rollback knows what this revision reads.
    :returns: seconds until then; None where time alone does not change it.
    """
    attempt, stable = draft.section("attempt"), draft.section(STABLE)
    revision, since = attempt.get(REVISION), parse_time(attempt.get("runningSince"))
    if revision is None or since is None or report is None or report.state is not DriverState.RUNNING:
        return None
    if stable.get(REVISION) == revision or not (report.checkpoint_time or report.lag_records == 0):
        return None
    left = desired.upgrade.stable_after_seconds - abs((draft.now - since).total_seconds())
    if left > 0:
        return left
    live, generation = look(), attempt.get("generation", 0)
    if has_gone_back(draft):
        generation = started_generation(draft, observation, live)
    draft.replace(STABLE, {
        REVISION: revision, "generation": generation, "since": format_time(draft.now),
        "checkpoint": report.checkpoint_id, "restoreNonce": desired.spec.restore.nonce,
        "documentFields": _fields(live.state.document),
    })  # fmt: skip
    draft.section(TARGET).pop(DEADLINE, None)
    return None


def begin_revision(draft: StatusDraft, live: Live, desired: DesiredJob, *, revision: str) -> None:
    """Notes what the stable revision leaves behind, and by when the new revision is stable.

    Called where an attempt is started.
    """
    stable, target, document = draft.section(STABLE), draft.section(TARGET), live.state.document
    if not stable or stable.get(REVISION) == revision:
        target.pop(DEADLINE, None)
        return
    if draft.section("attempt").get(REVISION) == stable[REVISION] and document is not None:
        stable["checkpoint"] = document.checkpoint_id
        stable["documentFields"] = sorted({*stable.get("documentFields", ()), *_fields(document)})
    ends = draft.now + timedelta(seconds=desired.upgrade.progress_deadline_seconds)
    target.setdefault(DEADLINE, format_time(ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the job goes back.

    :param cause: why; None where it does not.
    :param look_again_after: seconds after which time alone may change the verdict.
    """

    cause: Cause | None = None
    look_again_after: float | None = None


def judge_revision(
    draft: StatusDraft, look: Callable[[], Live], desired: DesiredJob | None, *, driver: PodView | None
) -> Verdict:
    """Decides whether the revision of the current attempt is given up.

    Called by the state machine while the driver comes up or runs, and when the attempt has ended.

    :param driver: None where it is gone, or has ended.
    """
    attempt, stable = draft.section("attempt"), draft.section(STABLE)
    revision = attempt.get(REVISION)
    if desired is None or desired.suspend or not _is_unproven(draft):
        return Verdict()
    failed = _failure(draft, driver, enough=1 if desired.upgrade.is_blue_green else FAILURES)
    ends = parse_time(draft.section(TARGET).get(DEADLINE))
    left = (ends - draft.now).total_seconds() if ends is not None else None
    if failed is None and (left is None or left > 0):
        return Verdict(look_again_after=left)
    failed = failed or _late(draft, desired)
    if failed is None or not desired.upgrade.goes_back:
        return Verdict()
    why = _hindrance(draft, look(), desired)
    if why:
        message = f"the job does not go back to revision {stable[REVISION]}: {why}; {failed.message}"
        draft.event(f"rollback-refused/{revision}", JobReason.ROLLBACK_REFUSED, message, warning=True)
        return Verdict()
    return Verdict(cause=Cause(reason=failed.reason, message=failed.message, lasts=True, back_to=stable[REVISION]))


def _is_unproven(draft: StatusDraft) -> bool:
    """Whether the attempt has another revision than the stable revision, has not ended in order, and is not refused."""
    attempt, stable = draft.section("attempt"), draft.section(STABLE)
    if attempt.get("outcome") in ORDERLY or is_refused(draft) or not stable:
        return False
    return attempt.get(REVISION) not in {None, stable.get(REVISION)}


def go_back(draft: StatusDraft) -> None:
    """Failures of the refused revision hold back no attempt of the stable revision.

    Called after the refusal, before the next attempt is decided.
    """
    failure, restarts = draft.section("lastFailure"), draft.section("restarts")
    failure.pop("fatal", None)
    restarts.pop("nextRetryTime", None)
    if restarts.get("consecutiveFailures"):
        restarts["consecutiveFailures"] = 0
    draft.section("attempt")["stopReason"] = str(StopReason.ROLLBACK)
    draft.section(TARGET).pop(DEADLINE, None)


def aborted_drain(draft: StatusDraft, job: JobIdentity, desired: DesiredJob | None) -> Cause | None:
    """Why the change is refused: its drain has not ended in time, and ``drainFallback`` is Abort. None for no refusal.

    A restart and a rescale have the revision of before: the next attempt is what they ask for. Called by the state
    machine when it has recorded how an attempt ended.
    """
    attempt = draft.section("attempt")
    asked = attempt.get("stopReason") in {StopReason.SPEC_CHANGE, StopReason.RESCALE}
    if desired is None or not asked or attempt.get("outcome") in ORDERLY:
        return None
    if attempt.get(REVISION) in {None, draft.section(TARGET).get(REVISION)}:
        return None
    if desired.upgrade.drain_fallback is not DrainFallback.ABORT or desired.upgrade.mode is UpgradeMode.LAST_CHECKPOINT:
        return None
    patch = '{"spec":{"upgrade":{"drainFallback":"LastCheckpoint"}}}'
    message = (
        f"attempt {attempt.get('id')} has not drained in time ({attempt.get('outcome')}); another"
        " spec.upgrade.drainTimeoutSeconds tries the change again; to make it at the last checkpoint:"
        f" kubectl patch ksj {job.name} -n {job.namespace} --type merge -p '{patch}'"
    )
    return Cause(reason=JobReason.DRAIN_TIMED_OUT, message=message, lasts=True, back_to=attempt[REVISION])


def way_back(
    draft: StatusDraft, observation: Observation, live: Live, settings: JobSettings
) -> tuple[AttemptRecord, DesiredJob] | None:
    """What an attempt runs while a change is refused: a revision that worked, with the policies of the resource.

    A job that has gone back has the resource's requests, too. Else they are a part of the refused change. Called where
    the next attempt is decided.

    :returns: None where no change is refused, or the revision is gone.
    """
    kept = _kept_revision(draft, observation, live) if replaced_by_nothing(draft) else None
    if kept is None:
        return None
    job, named = observation.job, NO_PART if has_gone_back(draft) else NO_PART - _REQUESTS
    own = {name: value for name, value in kept.spec.items() if name not in named}
    spec = {**own, **{name: job.spec[name] for name in named if name in job.spec}}
    if refuses_rescale(draft) and draft.parallelism:
        spec["parallelism"] = draft.parallelism
    try:
        desired = accepted_job(spec, job=job.identity, settings=settings, recorded_image=kept.default_image)
    except ConfigurationError:
        return None
    return replace(kept, spec=spec), desired


def spec_to_run(
    draft: StatusDraft,
    observation: Observation,
    desired: DesiredJob | None,
    look: Callable[[], Live],
    settings: JobSettings,
) -> DesiredJob | None:
    """The spec of the resource, or that of :func:`way_back` where a revision is refused.

    A refused rescale has the revision that runs.

    :param desired: of the resource; None where it is invalid.
    :returns: None where the resource is invalid, or where the revision is gone.
    """
    if desired is None or not replaced_by_nothing(draft) or refuses_rescale(draft):
        return desired
    choice = way_back(draft, observation, look(), settings)
    return None if choice is None else choice[1]


def _kept_revision(draft: StatusDraft, observation: Observation, live: Live) -> AttemptRecord | None:
    """The revision that worked: the stable revision, or that of the last attempt, which may never become stable."""
    stable, revision, back_to = draft.section(STABLE), live.stable, draft.refusal.get("backTo")
    if revision is not None and back_to == stable.get(REVISION):
        return AttemptRecord(
            attempt=0, owner_uid="", generation=int(stable.get("generation", 0)), spec=revision.spec,
            default_image=revision.image, code=revision.modules,
        )  # fmt: skip
    record = record_of(live, current_attempt(observation), observation.job.identity.uid)
    if record is None:
        return None
    if has_gone_back(draft):
        return record if record.revision == back_to else None
    return replace(record, generation=draft.section("attempt").get("generation") or record.generation)


def _failure(draft: StatusDraft, driver: PodView | None, *, enough: int) -> Cause | None:
    """The failure of the revision that needs no further attempt to be known.

    :param enough: consecutive failures after which the revision is given up.
    """
    attempt, failure = draft.section("attempt"), draft.section("lastFailure")
    if driver is None:
        failures = int(draft.section("restarts").get("consecutiveFailures", 0))
        ended = attempt.get("outcome") is not None and failure.get("attempt") == attempt.get("id")
        is_known = failure.get("fatal") is True or failures >= enough
        if not ended or not is_known or _is_outside(str(failure.get("reason"))):
            return None
        return Cause(reason=str(failure["reason"]), message=f"attempt {attempt['id']} failed: {failure.get('message')}")
    waits = draft.seconds_in(Phase.SCHEDULING) or 0.0
    if driver.waiting_reason not in OF_THE_POD or waits < IMAGE_SECONDS:
        return None
    return Cause(reason=driver.waiting_reason, message=f"pod {driver.name} does not start: {driver.waiting_message}")


def _late(draft: StatusDraft, desired: DesiredJob) -> Cause | None:
    """The deadline has passed. None where something outside of the revision may be the reason."""
    failure, attempt = draft.section("lastFailure"), draft.section("attempt")
    seconds = desired.upgrade.progress_deadline_seconds
    message = f"it has not become stable within {seconds} s (spec.upgrade.progressDeadlineSeconds)"
    draft.event(
        f"late/{attempt.get(REVISION)}", JobReason.PROGRESS_DEADLINE_EXCEEDED,
        f"revision {attempt.get(REVISION)}: {message}", warning=True,
    )  # fmt: skip
    present = {draft.reason, str(failure.get("reason", ""))}
    if any(map(_is_outside, present)) or "runningSince" in attempt:
        return None
    return Cause(reason=JobReason.PROGRESS_DEADLINE_EXCEEDED, message=message)


def _is_outside(reason: str) -> bool:
    return reason in _OUTSIDE or reason in CONDITION_BY_REASON


def _hindrance(draft: StatusDraft, live: Live, desired: DesiredJob) -> str:
    """Why the stable revision cannot run; empty where it can."""
    stable, document = draft.section(STABLE), live.state.document
    if live.stable is None:
        return "its ConfigMap is gone"
    if desired.spec.restore.nonce != stable.get("restoreNonce", 0):
        return "spec.restore has been changed together with the revision"
    if document is None or document.attempt < int(draft.section("attempt").get("id", 0)):
        return ""  # the new revision has written nothing
    return _hindrance_of(document, stable, same_image=live.stable.image == desired.workload.image)


def _hindrance_of(document: CheckpointDocument, stable: Mapping[str, Any], *, same_image: bool) -> str:
    """Why the stable revision cannot resume from a document of the new revision; empty where it can."""
    checkpoint = int(stable.get("checkpoint", 0))
    if document.stateless is not None and document.stateless.checkpoint_id > checkpoint:
        return f"the new revision has begun without its checkpoint; spec.restore goes back to checkpoint {checkpoint}"
    if document.engine_has_state and document.checkpoint_id > checkpoint:
        return "the state of its query has a checkpoint of the new revision"
    unknown = {*_fields(document)} - {*stable.get("documentFields", ())}
    if unknown and not same_image:
        return f"its image may not read the checkpoint document, which has new fields: {', '.join(sorted(unknown))}"
    return ""


def _fields(document: CheckpointDocument | None) -> list[str]:
    return [] if document is None else sorted(json.loads(encode(document)))
