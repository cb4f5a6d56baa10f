"""What the operator works towards, as ``status.target`` stores it (ADR 81).

It is decided at the beginning of each plan, from the resource and from what is known about it. Decisions read when it
changed, and do not conclude it from generations and reasons of an earlier plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.attempts import CODE_DIGEST, REVISION, spec_of
from kafkasparkjob_operator.decisions.checks.code import config_map_of
from kafkasparkjob_operator.decisions.revisions.refusal import (
    has_gone_back,
    is_refused,
    is_tried_again,
    refuses_rescale,
)
from kafkasparkjob_operator.observation.observation import Observation
from kafkasparkjob_operator.resources.revisions import revision_of
from kafkasparkjob_operator.status.status import TARGET, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, JobSettings


class TargetCause(StrEnum):
    """``status.target.cause``: why the target last changed."""

    CREATED = "Created"
    SPEC_CHANGED = "SpecChanged"
    CODE_CHANGED = "CodeChanged"
    RESCALED = "Rescaled"
    AUTOSCALED = "Autoscaled"
    """A decision of ``spec.autoscaler``."""
    RESTARTED = "Restarted"
    """Another ``restartNonce``, or a checkpoint to restore: the same revision in another attempt."""
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    ROLLED_BACK = "RolledBack"
    """A new revision has failed before it was stable."""
    REFUSED = "Refused"
    """The resource asks for something that is known to fail: the target is what runs."""
    DELETED = "Deleted"


_WITHHELD = frozenset({str(TargetCause.REFUSED), str(TargetCause.ROLLED_BACK)})


def decide_target(
    draft: StatusDraft, observation: Observation, desired: DesiredJob | None, settings: JobSettings
) -> None:
    """Writes the target. Called by the state machine at the beginning of a plan, and when a change is refused.

    :param desired: of the resource; None where it is invalid: revision and parallelism stay.
    """
    if desired is None:
        if observation.job.spec.get("suspend") is True:
            _set_cause(draft, TargetCause.SUSPENDED)
        return
    kept, attempt = draft.section(TARGET), draft.section("attempt")
    if is_refused(draft):
        revision, parallelism = draft.refusal.get("backTo") or attempt.get(REVISION), draft.parallelism
        parallelism = (parallelism if refuses_rescale(draft) else 0) or desired.spec.parallelism
        wanted = _Wanted(revision=revision, parallelism=parallelism)
    else:
        wanted = _wanted(draft, observation, desired, settings)
    cause = _cause(draft, observation, wanted)
    if (kept.get(REVISION), kept.get("parallelism"), kept.get("cause")) == (wanted.revision, wanted.parallelism, cause):
        return
    target = {
        REVISION: wanted.revision, "parallelism": wanted.parallelism, "cause": str(cause),
        "since": format_time(draft.now),
    }  # fmt: skip
    draft.replace(TARGET, {name: value for name, value in target.items() if value})


def target_deleted(draft: StatusDraft) -> None:
    """The resource is being deleted: nothing of it is to run. Called by the decisions about a deletion."""
    for name in (REVISION, "parallelism"):
        draft.section(TARGET).pop(name, None)
    _set_cause(draft, TargetCause.DELETED)


def _set_cause(draft: StatusDraft, cause: TargetCause) -> None:
    target = draft.section(TARGET)
    if target.get("cause") != cause:
        target.update(cause=str(cause), since=format_time(draft.now))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """
    :param revision: None where it is unknown until its modules exist.
    :param restarts: the same revision is to run in another attempt.
    """

    revision: str | None
    parallelism: int
    restarts: bool = False


def _cause(draft: StatusDraft, observation: Observation, wanted: _Wanted) -> TargetCause:
    kept = draft.section(TARGET)
    before = kept.get("cause")
    if observation.job.spec.get("suspend") is True:
        return TargetCause.SUSPENDED
    if before is None:
        return TargetCause.CREATED
    if is_refused(draft):
        return TargetCause.ROLLED_BACK if has_gone_back(draft) else TargetCause.REFUSED
    if before == TargetCause.SUSPENDED:
        return TargetCause.RESUMED
    return _changed(draft, observation, wanted) or (
        TargetCause.SPEC_CHANGED if before in _WITHHELD else TargetCause(before)
    )


def _changed(draft: StatusDraft, observation: Observation, wanted: _Wanted) -> TargetCause | None:
    kept, generation = draft.section(TARGET), observation.job.generation
    if kept.get(REVISION) not in {wanted.revision, None}:
        code = draft.section("attempt").get("generation") == generation
        return TargetCause.CODE_CHANGED if code else TargetCause.SPEC_CHANGED
    if kept.get("parallelism") != wanted.parallelism:
        decided = draft.section("autoscaler").get("parallelism") == wanted.parallelism
        return TargetCause.AUTOSCALED if decided else TargetCause.RESCALED
    return TargetCause.RESTARTED if wanted.restarts else None


def _wanted(draft: StatusDraft, observation: Observation, desired: DesiredJob, settings: JobSettings) -> _Wanted:
    """The attempt's revision where it also runs the resource: an operator's upgrade, and a default, change nothing."""
    job, live, attempt = observation.job, observation.live, draft.section("attempt")
    parallelism = desired.spec.parallelism
    before, digest = attempt.get(REVISION), str(attempt.get(CODE_DIGEST, ""))
    same_code = not config_map_of(job.spec) or not observation.code or observation.code == digest
    if same_code and before is not None and not is_tried_again(draft, observation, desired):
        if attempt.get("generation") == job.generation:
            return _Wanted(revision=before, parallelism=parallelism)
        if live is None:  # a look at a changed resource is live, or changes nothing
            return _Wanted(revision=draft.section(TARGET).get(REVISION) or before, parallelism=parallelism)
        started = spec_of(live, attempt["id"], job.identity, settings, parallelism=parallelism)
        if started is not None and started.same_revision(desired):
            restarts = not started.same_application(desired)
            return _Wanted(revision=before, parallelism=parallelism, restarts=restarts)
    if config_map_of(job.spec) and not (observation.code or digest):
        return _Wanted(revision=None, parallelism=parallelism)
    revision = revision_of(job.spec, desired, modules=observation.code or digest)
    return _Wanted(revision=revision.name(job.identity), parallelism=parallelism)
