"""Kubernetes events of a job: each occurrence once, so that ``kubectl describe`` tells the story."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.identity import API_VERSION, JobIdentity
from sparkapp.model import names

MAX_NOTE = 1024
"""The API server refuses longer messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """Something that happened to a job.

    :param occurrence: identifies the occurrence within the job's life; publishing it again changes nothing.
    """

    occurrence: str
    reason: str
    message: str
    warning: bool = False


def event_manifest(event: JobEvent, job: JobIdentity, *, resource_version: str, now: datetime) -> dict[str, Any]:
    """The event's manifest; its name is a function of the occurrence, so a repetition is refused as a duplicate."""
    digest = hashlib.sha256(f"{job.uid}/{event.occurrence}/{event.reason}".encode()).hexdigest()[:16]
    time = format_time(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{job.name}.{digest}", "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": names.KIND,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
            "resourceVersion": resource_version,
        },
        "reason": event.reason,
        "message": event.message[:MAX_NOTE],
        "type": "Warning" if event.warning else "Normal",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": names.MANAGED_BY},
        "reportingComponent": names.MANAGED_BY,
        "reportingInstance": names.MANAGED_BY,
    }
