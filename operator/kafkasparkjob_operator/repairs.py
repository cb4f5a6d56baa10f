"""Which changes of a resource start a Failed or Finished job again: every one but of ``spec.parallelism`` alone.

An autoscaler and ``kubectl scale`` write that field. They know nothing of why a job is at rest, as a finished Job's
``parallelism`` starts no pod.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.endings import Outcome
from kafkasparkjob_operator.observation import AttemptRecord, JobResource
from kafkasparkjob_operator.status import JobState, StatusDraft

DIGEST = "specDigest"
"""``status``: of the spec without its parallelism, at ``observedGeneration``."""
AT_REST = frozenset({str(JobState.FAILED), str(JobState.FINISHED)})
SCALE = "a change of spec.parallelism alone does not start it; raise spec.restartNonce"


def stay_at_rest(draft: StatusDraft, job: JobResource) -> None:
    """Takes a generation that differs in parallelism alone for the one before, where the job is at rest.

    Called by the state machine at each look, before it decides whether an attempt may start.
    """
    digest = digest_of(job.spec)
    seen = job.status.get("observedGeneration")
    draft.replace(DIGEST, digest)
    if job.status.get("state") not in AT_REST or job.status.get(DIGEST) != digest or seen == job.generation:
        return
    for name in ("attempt", "lastFailure"):
        section = draft.section(name)
        if section.get("generation") == seen:
            section["generation"] = job.generation
    message = str(job.status.get("message", ""))
    if SCALE not in message:
        state = JobState(str(job.status["state"]))
        draft.set_state(state, reason=str(job.status.get("reason", "")), message=f"{message}; {SCALE}")
    draft.event(f"scaled/{job.generation}", "ScaleIgnored", f"the job is {job.status['state']}: {SCALE}")


def rescaled_meanwhile(draft: StatusDraft, job: JobResource, record: AttemptRecord | None) -> None:
    """The same for an attempt that brings the job to rest after its resource was rescaled.

    Called by the state machine when it has written down how the attempt ended.

    :param record: of the attempt, with the spec that it was started with.
    """
    attempt, failure = draft.section("attempt"), draft.section("lastFailure")
    rests = attempt.get("outcome") == Outcome.FINISHED or draft.state == JobState.FAILED
    if not rests or record is None or digest_of(record.spec) != digest_of(job.spec):
        return
    for section in (attempt, failure):
        if section.get("generation") == record.generation:
            section["generation"] = job.generation


def digest_of(spec: Mapping[str, Any]) -> str:
    """Equal for two specs that differ in parallelism alone."""
    text = json.dumps({name: value for name, value in spec.items() if name != "parallelism"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
