"""A snapshot that the operator has made, reduced to what the state machine decides by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.identity import JobKey

MANUAL = "Manual"
"""``spec.trigger`` of a snapshot that a person makes; also without the field."""
_MAX_TEXT = 512
"""Characters of a message that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotView:
    """A KafkaSparkSnapshot that is not ``Manual``.

    :param job_uid: of the job that it was made of. :param trigger: ``spec.trigger``.
    :param state: empty where the operator has not looked at it yet.
    :param created: by the API server's clock; None where it cannot be read.
    :param checkpoint: number of the checkpoint that it holds; 0 for none.
    :param kept: no plan deletes it: a spec names it, or the API server did not let it go just now.
    """

    name: str
    uid: str
    job_uid: str
    trigger: str
    state: str = ""
    message: str = ""
    created: datetime | None = None
    checkpoint: int = 0
    kept: bool = False


def snapshot_view(body: Mapping[str, Any]) -> tuple[JobKey, SnapshotView] | None:
    """The job of a snapshot, and its view; None for a snapshot of a person."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    job = spec.get("jobRef") or {}
    trigger, uid = str(spec.get("trigger") or MANUAL), str(job.get("uid") or "")
    if trigger == MANUAL or not uid:
        return None
    number = (status.get("checkpoint") or {}).get("id")
    view = SnapshotView(
        name=meta["name"], uid=meta["uid"], job_uid=uid, trigger=trigger, state=str(status.get("state") or ""),
        message=str(status.get("message") or "")[:_MAX_TEXT], created=parse_time(meta.get("creationTimestamp")),
        checkpoint=number if isinstance(number, int) else 0,
    )  # fmt: skip
    return JobKey(meta["namespace"], str(job.get("name") or "")), view
