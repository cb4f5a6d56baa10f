"""Changes that start a Failed or Finished job again: all but those of ``spec.parallelism`` and of some policies.

An autoscaler and ``kubectl scale`` write that field and do not know why a job is at rest. A finished Job of Kubernetes
starts no pod for a change of its ``parallelism`` either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.decisions.endings import EndingKind
from kafkasparkjob_operator.decisions.revisions.refusal import how_to_restart, is_asked_again, is_tried_again
from kafkasparkjob_operator.observation.observation import AttemptRecord, JobResource, Observation
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob

DIGEST = "specDigest"
"""``status``: digest of the spec without its parallelism, at ``observedGeneration``."""
_STARTS_NOTHING = frozenset(
    {"autoscaler", "deletion", "parallelism", "snapshots", "ttlSecondsAfterFinished", "upgrade"}
)
"""Fields of the spec whose change leaves a job at rest."""
AT_REST = frozenset({str(JobState.FAILED), str(JobState.FINISHED)})
SCALE = "a change of spec.parallelism alone does not start it"


def stay_at_rest(draft: StatusDraft, job: JobResource, desired: DesiredJob | None) -> None:
    """Treats a generation that differs only in what starts nothing as the previous generation, of a job at rest.

    Another ``upgrade`` starts a job that has gone back: it asks for the refused revision. Called by the state machine
    at each look, before it ends a refusal and decides whether an attempt may start.

    :param desired: of the resource; None where it is invalid.
    """
    digest = digest_of(job.spec)
    seen = job.status.get("observedGeneration")
    draft.replace(DIGEST, digest)
    if job.status.get("state") not in AT_REST or job.status.get(DIGEST) != digest or seen == job.generation:
        return
    if is_asked_again(draft, desired):
        return
    attempt, failure = draft.section("attempt"), draft.section("lastFailure")
    ended = attempt.get("outcome") == EndingKind.FINISHED and attempt.get("generation") == seen
    failed = failure.get("fatal") is True and failure.get("generation") == seen
    if not (ended or failed):
        return  # an invalid spec or a missing state holds it, and the change may be what starts it
    for section in (attempt, failure):
        if section.get("generation") == seen:
            section["generation"] = job.generation
    if job.spec.get("parallelism", draft.parallelism) == draft.parallelism:
        return
    message = str(job.status.get("message", ""))
    if SCALE not in message:
        state = JobState(str(job.status["state"]))
        phase = Phase.FAILED if state is JobState.FAILED else Phase.FINISHED
        reason = str(job.status.get("reason", ""))
        draft.set_state(state, reason=reason, message=f"{message}; {SCALE}", phase=phase)
    draft.event(
        f"scaled/{job.generation}",
        JobReason.SCALE_IGNORED,
        f"the job is {job.status['state']}: {SCALE}; {how_to_restart(draft, job.identity.key)}",
    )


def is_unchanged(job: JobResource) -> bool:
    """Whether the spec is that of the last look before a deletion, apart from what starts nothing.

    The generation does not say so: a deletion is another generation of the same spec.
    """
    return bool(job.status.get(DIGEST) == digest_of(job.spec))


def rescaled_meanwhile(
    draft: StatusDraft, observation: Observation, desired: DesiredJob | None, record: AttemptRecord | None
) -> None:
    """The same for an attempt that ends the job after its resource was rescaled.

    Called by the state machine after it has recorded how the attempt ended.

    :param desired: of the resource; None where it is invalid.
    :param record: the attempt's ConfigMap, with the spec that it was started with.
    """
    job, attempt, failure = observation.job, draft.section("attempt"), draft.section("lastFailure")
    rests = attempt.get("outcome") == EndingKind.FINISHED or draft.state == JobState.FAILED
    if not rests or record is None or digest_of(record.spec) != digest_of(job.spec):
        return
    if desired is not None and is_tried_again(draft, observation, desired):
        return
    # A rescale in place has given the attempt a later generation than its ConfigMap's.
    attempt["generation"] = job.generation
    if failure.get("attempt") == record.attempt:
        failure["generation"] = job.generation


def digest_of(spec: Mapping[str, Any]) -> str:
    """A digest that is equal for two specs that differ only in what starts nothing."""
    text = json.dumps({name: value for name, value in spec.items() if name not in _STARTS_NOTHING}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
