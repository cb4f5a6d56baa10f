"""A change of the resource that is known to fail does not replace an attempt that works (ADR 74).

It is known by the standby driver that was started for the change. ``status.refused`` has the cause until the resource
asks for something else, or the standby driver is prepared after all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.attempts import CODE_DIGEST, REVISION, started_generation
from kafkasparkjob_operator.decisions.endings import EndingKind, ending_of, with_command
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.observation import JobResource, Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.resources.revisions import REVISION_KEY, revision_of
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import TARGET, JobState, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, UpgradePolicy
from sparkapp.model import commands

OF_THE_IMAGE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
"""Reasons of the kubelet for a container that does not start for its image."""
OF_THE_POD = OF_THE_IMAGE | {"CreateContainerConfigError", "CreateContainerError"}
_DEFAULT_IMAGE = (
    "the values job.image.repository and job.image.tag of the operator's chart name this image: correct them, or set"
    " spec.image"
)
_OWN_IMAGE = "spec.image names this image: correct it, or add a Secret for its registry to spec.imagePullSecrets"
_CODE = "code"
_REQUEST = "request"
"""``status.refused``: what asks for the revision, next to its content."""
_NONCE = "restartNonce"
"""``status.refused``: the part of it that a release before, and its CustomResourceDefinition, know."""
FAILURES = 3
"""Consecutive failures after which the spec of the attempts no longer counts as a spec that works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a change of the resource does not work.

    :param reason: of the failure.
    :param message: with the remedy.
    :param lasts: a standby driver that is started again fails again.
    :param back_to: the revision that the job goes back to; empty where the running attempt has it.
    """

    reason: str
    message: str
    lasts: bool = False
    back_to: str = ""


def image_remedy(*, default_image: bool) -> str:
    """Where the image of a pod that cannot be pulled comes from.

    :param default_image: the resource names no image.
    """
    return _DEFAULT_IMAGE if default_image else _OWN_IMAGE


def cause_of_end(standby: PodView, job: JobResource) -> Cause | None:
    """Why the standby driver has ended by itself; None where it was stopped in order, which says nothing."""
    ending = ending_of(standby, attempt=standby.attempt, document=None, unclaimed=True)
    if ending.outcome is EndingKind.DRAINED:
        return None
    ending = with_command(ending, job.identity.key, standby.attempt)
    return Cause(reason=ending.reason, message=ending.text, lasts=ending.fatal)


def cause_of_wait(standby: PodView, job: JobResource, *, late: bool) -> Cause | None:
    """Why a standby driver with a node does not start; None where it starts, or may still.

    :param late: its container should run by now.
    """
    if standby.started or not standby.node:
        return None
    reason = standby.waiting_reason
    if reason not in OF_THE_POD and not late:
        return None
    message = f"the standby driver {standby.name} does not start"
    if not reason:
        look = f"kubectl describe pod {standby.name} -n {job.identity.namespace}"
        return Cause(
            reason=JobReason.DRIVER_PENDING, message=f"{message}; look for a missing ConfigMap or Secret: {look}"
        )
    message = f"{message}: {reason}: {standby.waiting_message}"
    if reason in OF_THE_IMAGE:
        message = f"{message}; {image_remedy(default_image=not job.spec.get('image'))}"
    return Cause(reason=reason, message=message)


def _digest(asked: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _again(desired: DesiredJob) -> list[object]:
    """What asks for the same revision once more: ``restartNonce``, and ``upgrade``, which says how a change is made.

    A default is the same as no value.
    """
    return [desired.restart_nonce, sorted(asdict(desired.upgrade).items() - asdict(UpgradePolicy()).items())]


def _request(observation: Observation, desired: DesiredJob | None, *, back: bool, rescales: bool) -> str:
    """Digest of what asks for the refused change, next to its modules; empty where the resource is invalid.

    While the attempt continues, the change is whatever it does not run: a revision, a rescale, or a restore.

    :param back: the job goes back. Then the revision is compared by its name. :param rescales: no revision is refused.
    """
    if desired is None:
        return ""
    asked, spec = _again(desired), desired.spec
    if not back:
        revision = revision_of(observation.job.spec, desired, modules="").name(observation.job.identity)
        # A rescale does not ask for a refused revision.
        parallelism = spec.parallelism if rescales else 0
        asked += [revision, parallelism, spec.restore.nonce, desired.restart_policy.successor]
    return _digest(asked)


def _asks_again(draft: StatusDraft, observation: Observation, desired: DesiredJob) -> bool:
    """Whether the resource asks for another change than the refused change, or again for the refused revision."""
    kept = draft.refusal
    if has_gone_back(draft):
        return is_asked_again(draft, desired) or revision_name(observation, desired) != kept.get("revision")
    if _REQUEST in kept:
        return bool(kept[_REQUEST] != _request(observation, desired, back=False, rescales=refuses_rescale(draft)))
    return bool(kept.get("generation") != observation.job.generation)


def is_asked_again(draft: StatusDraft, desired: DesiredJob | None) -> bool:
    """Whether the job has gone back, and its resource asks for the refused revision again.

    Called before :func:`forget_refusal`, which ends the refusal then.

    :param desired: of the resource; None where it is invalid.
    """
    if desired is None or not has_gone_back(draft):
        return False
    kept = draft.refusal
    if _REQUEST in kept:
        return bool(kept[_REQUEST] != _digest(_again(desired)))
    return bool(kept.get(_NONCE, 0) != desired.restart_nonce)


def refuse(draft: StatusDraft, observation: Observation, desired: DesiredJob | None, cause: Cause) -> None:
    """Writes that the change is refused.

    Called while the attempt runs that it would replace, or where the job goes back to another revision.

    :param desired: of the resource; None where it is invalid.
    """
    attempt, generation = draft.section("attempt"), observation.job.generation
    # While a change is refused the target is what runs.
    revision = draft.refusal.get("revision") or draft.section(TARGET).get("revision")
    message = (
        f"the change to generation {generation} is refused, and attempt {attempt.get('id')} continues with generation"
        f" {attempt.get('generation')}: {cause.message}"
    )
    if attempt.get("generation") == generation and desired is not None and _rescales(draft, desired):
        # An autoscaler decides without a new generation.
        message = (
            f"parallelism {desired.spec.parallelism} is refused, and attempt {attempt.get('id')} continues with"
            f" parallelism {draft.parallelism}: {cause.message}"
        )
    if cause.back_to:
        message = f"revision {revision} is refused, and the job goes back to revision {cause.back_to}: {cause.message}"
    if draft.refusal.get("reason") != cause.reason or cause.back_to:
        # ErrImagePull and ImagePullBackOff follow each other for ever.
        entry = {
            "revision": revision, "generation": generation, "reason": cause.reason, "message": message,
            "code": observation.code, "time": format_time(draft.now), "backTo": cause.back_to,
            _REQUEST: _request(
                observation, desired, back=bool(cause.back_to), rescales=_is_that_of(attempt, revision)
            ),
            _NONCE: 0 if desired is None else desired.restart_nonce,
        }  # fmt: skip
        draft.add_refusal({name: value for name, value in entry.items() if value})
    kept = draft.refusal
    occurrence = f"refused/{kept.get('generation')}/{kept.get(_REQUEST)}/{kept['reason']}/{observation.code}"
    draft.event(occurrence, draft.refusal_reason, message, warning=True)


def accept(draft: StatusDraft) -> None:
    """Nothing is known against the change any more: it may replace the attempt."""
    draft.end_refusal()


def forget_refusal(
    draft: StatusDraft, observation: Observation, desired: DesiredJob | None, look: Callable[[], Live]
) -> None:
    """Ends a refusal where the resource no longer asks for what is refused, or its code has changed.

    A job that has gone back stays so while the resource has the refused revision. A change of its parallelism does not
    try that again, and another request does.

    :param desired: of the resource; None where it is invalid.
    :param look: returns the live part of the observation; called where a job no longer stays with what it went back to.
    """
    if is_refused(draft) and _stands(draft, observation, desired):
        return
    attempt = draft.section("attempt")
    if has_gone_back(draft):
        # It does not run what the resource has. Modules and defaults change without a new generation.
        generation = observation.job.generation
        attempt["generation"] = min(started_generation(draft, observation, look()), generation - 1)
    accept(draft)


def _stands(draft: StatusDraft, observation: Observation, desired: DesiredJob | None) -> bool:
    back, code = has_gone_back(draft), observation.code
    if code and code != draft.refusal.get(_CODE):
        return False
    if desired is None:
        return back
    ended = draft.state == JobState.FAILED or _runs(draft, observation, desired)  # nothing continues
    return not _asks_again(draft, observation, desired) and (back or not ended)


def _runs(draft: StatusDraft, observation: Observation, desired: DesiredJob) -> bool:
    """Whether the attempt is what the resource asks for."""
    attempt, code = draft.section("attempt"), observation.code
    has_modules = not code or attempt.get(CODE_DIGEST, code) == code
    return attempt.get("generation") == observation.job.generation and has_modules and not _rescales(draft, desired)


def _rescales(draft: StatusDraft, desired: DesiredJob) -> bool:
    return draft.parallelism != desired.spec.parallelism


def revision_name(observation: Observation, desired: DesiredJob) -> str:
    """The ConfigMap of the resource's revision, with the present modules."""
    job = observation.job
    return revision_of(job.spec, desired, modules=observation.code).name(job.identity)


def is_tried_again(draft: StatusDraft, observation: Observation, desired: DesiredJob) -> bool:
    """Whether the attempt runs what the job went back to, and the resource asks for the refused revision again.

    Then another attempt is needed, also for a default image, which starts none elsewhere (ADR 34).
    """
    attempt, last = draft.section("attempt"), draft.last_way_back
    if is_refused(draft) or attempt.get("generation") == observation.job.generation:
        return False
    if last.get("backTo") is None or last["backTo"] != attempt.get(REVISION):
        return False
    return bool(last.get("revision") == revision_name(observation, desired))


def is_refused(draft: StatusDraft) -> bool:
    """Whether the resource's present spec is refused. Called after :func:`forget_refusal`."""
    return bool(draft.refusal)


def has_gone_back(draft: StatusDraft) -> bool:
    """Whether the job runs an earlier revision, and does not try the refused revision again by itself."""
    return "backTo" in draft.refusal


def how_to_restart(draft: StatusDraft, job: JobKey) -> str:
    """What starts a job at rest again, for messages: a command, and which revision it runs.

    ``restartNonce`` asks for the resource's revision, also where that is refused and the job has gone back (ADR 116).
    """
    command, refusal = commands.restart(job.namespace, job.name), draft.refusal
    if not has_gone_back(draft):
        return f"to start the job again without another change: {command}"
    kept, key = refusal["backTo"], REVISION_KEY.replace(".", r"\.")
    return (
        f"to keep revision {kept}, put its content into the resource: kubectl get configmap {kept} -n {job.namespace}"
        f" -o jsonpath='{{.data.{key}}}'; to try the refused revision {refusal.get('revision')} again: {command}"
    )


def refuses_rescale(draft: StatusDraft) -> bool:
    """Whether the refused change has the revision that runs: it is another parallelism, a restart or a restore."""
    refusal = draft.refusal
    return bool(refusal) and not has_gone_back(draft) and _is_that_of(draft.section("attempt"), refusal.get(REVISION))


def refuses_revision(draft: StatusDraft) -> bool:
    """Whether a revision is refused that a standby driver may still prepare. What runs is rescaled meanwhile."""
    return is_refused(draft) and not has_gone_back(draft) and not refuses_rescale(draft)


def _is_that_of(attempt: Mapping[str, Any], revision: object) -> bool:
    return attempt.get(REVISION) in {None, revision}  # without a name it is another: its modules do not exist


def replaced_by_nothing(draft: StatusDraft) -> bool:
    """Whether what runs stays, or is what the next attempt runs: the change is refused, and that spec worked.

    Failures say nothing against it while an attempt runs, nor where that was stopped or drained.
    """
    attempt, failure = draft.section("attempt"), draft.section("lastFailure")
    failed = failure.get("attempt") == attempt.get("id")
    failures = int(draft.section("restarts").get("consecutiveFailures", 0))
    works = not failed or (failure.get("fatal") is not True and failures < FAILURES)
    return has_gone_back(draft) or (is_refused(draft) and works)
