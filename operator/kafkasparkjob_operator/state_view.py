"""What the state ConfigMap says about starting another attempt; its content is untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kafkasparkjob_operator.identity import ANNOTATION_JOB_UID, JobIdentity, owned_by_former_job
from sparkapp.model import names
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.checkpoint_codec import decode
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign, CheckpointMissing, KafkaSparkJobError
from sparkapp.model.state_config_map import document_text, way_back


class StateKind(Enum):
    ABSENT = "absent"
    COLLECTED = "collected"
    """Of a deleted resource of the same name: Kubernetes is about to collect it."""
    EMPTY = "empty"
    """Made for this job, not claimed by an attempt yet."""
    VALID = "valid"
    REFUSED = "refused"
    """Corrupt or foreign; no attempt may start from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateView:
    """The state ConfigMap at one moment."""

    kind: StateKind
    document: CheckpointDocument | None = None
    error: KafkaSparkJobError | None = None


ABSENT = StateView(kind=StateKind.ABSENT)


def state_view(body: Mapping[str, Any] | None, job: JobIdentity) -> StateView:
    """Judges the state ConfigMap for one life of the resource."""
    if body is None:
        return ABSENT
    if owned_by_former_job(body, job):
        return StateView(kind=StateKind.COLLECTED)
    uid = (body["metadata"].get("annotations") or {}).get(ANNOTATION_JOB_UID, "")
    name = names.state_config_map(job.name)
    # A document names its job itself; without one the annotation has to.
    if uid != job.uid and (uid or names.CHECKPOINT_KEY not in (body.get("data") or {})):
        made_for = f"made for a job with UID {uid!r}, this job's is {job.uid!r}" if uid else "not made for this job"
        msg = f"ConfigMap {name} is there, and was {made_for}"
        return StateView(kind=StateKind.REFUSED, error=CheckpointForeign(msg))
    try:
        text = document_text(name, body.get("data"), body.get("binaryData"))
        if text is None:
            return StateView(kind=StateKind.EMPTY)
        return StateView(kind=StateKind.VALID, document=decode(text, job_uid=job.uid))
    except (CheckpointCorrupt, CheckpointForeign) as error:
        return StateView(kind=StateKind.REFUSED, error=error)


def state_missing(job: JobIdentity, *, attempts: int, checkpoint: int) -> CheckpointMissing:
    """The error for a state that is gone, or emptied, after attempts ran: never start empty by guess."""
    msg = (
        f"ConfigMap {names.state_config_map(job.name)} is gone or empty, although {attempts} attempt(s) ran"
        f" and checkpoint {checkpoint} was reported"
    )
    return CheckpointMissing(msg, remedy=way_back(job.namespace, job.name))
