"""The state ConfigMap, judged for the start of another attempt; its content is untrusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity, owned_by_deleted_job
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.state_config_map import check_made_for, document_text, way_back
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign, CheckpointMissing, KafkaSparkJobError


class StateKind(Enum):
    ABSENT = "absent"
    COLLECTED = "collected"
    """It belongs to a deleted resource of the same name; Kubernetes is about to collect it."""
    EMPTY = "empty"
    """Created for this job; no attempt has claimed it yet."""
    VALID = "valid"
    REFUSED = "refused"
    """Corrupt or foreign; no attempt may start from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateView:
    """The state ConfigMap at a moment.

    :param digest: of the ConfigMap's content; empty where it does not exist.
    """

    kind: StateKind
    digest: str = ""
    document: CheckpointDocument | None = None
    error: KafkaSparkJobError | None = None


ABSENT = StateView(kind=StateKind.ABSENT)


def state_view(body: Mapping[str, Any] | None, job: JobIdentity) -> StateView:
    """Judges the state ConfigMap for this incarnation of the resource."""
    if body is None:
        return ABSENT
    if owned_by_deleted_job(body, job):
        return StateView(kind=StateKind.COLLECTED)
    name = names.state_config_map(job.name)
    made_for = (body["metadata"].get("annotations") or {}).get(names.ANNOTATION_JOB_UID, "")
    try:
        check_made_for(name, made_for, body.get("data"), job_uid=job.uid)
    except CheckpointForeign as error:
        return StateView(kind=StateKind.REFUSED, error=error)
    content = json.dumps([body.get("data") or {}, body.get("binaryData") or {}], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    try:
        text = document_text(name, body.get("data"), body.get("binaryData"))
        if text is None:
            return StateView(kind=StateKind.EMPTY, digest=digest)
        return StateView(kind=StateKind.VALID, digest=digest, document=decode(text, job_uid=job.uid))
    except (CheckpointCorrupt, CheckpointForeign) as error:
        return StateView(kind=StateKind.REFUSED, digest=digest, error=error)


def state_missing(job: JobIdentity, *, attempts: int, checkpoint: int) -> CheckpointMissing:
    """The error for a state that was deleted or emptied after attempts ran; the job never starts empty by guess."""
    msg = (
        f"ConfigMap {names.state_config_map(job.name)} is gone or empty, although {attempts} attempt(s) ran"
        f" and checkpoint {checkpoint} was reported"
    )
    return CheckpointMissing(msg, remedy=way_back(job.namespace, job.name))
