"""Kubernetes events of a job; each occurrence is published once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.identity import API_VERSION, JobIdentity, JobKey
from sparkapp.model import names

MAX_NOTE = 1024
"""The API server refuses longer messages."""
REMEMBER_SECONDS = 3600
"""Kubernetes keeps an event for this time by default; an event that still holds is then published again."""
REMEMBERED = 50
"""Events that are remembered for a job; many more than hold at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """An event of a job.

    :param occurrence: identifies the event within the resource; publishing it again changes nothing.
    :param remedy: what a person does about it; it follows the message, and no length of the message cuts it.
    :param reported: the driver reports it; job code may have forged it.
    """

    occurrence: str
    reason: str
    message: str
    remedy: str = ""
    warning: bool = False
    reported: bool = False

    @property
    def text(self) -> str:
        """Message and remedy."""
        return f"{self.message}{self._end}"

    @property
    def note(self) -> str:
        """The text as the API server takes it: the end of a long message is left out, and not the remedy."""
        return f"{self.message[: max(0, MAX_NOTE - len(self._end))]}{self._end}"[:MAX_NOTE]

    @property
    def _end(self) -> str:
        return f". {self.remedy}" if self.remedy else ""


class Published:
    """Names of recently published events, in memory, so that an event is not sent again at each look.

    Called by the event recorder. A forgotten event is sent again, and refused as a duplicate.
    """

    def __init__(self) -> None:
        self._names: dict[JobKey, dict[str, datetime]] = {}

    def knows(self, key: JobKey, name: str, now: datetime) -> bool:
        """Whether the event was published within :data:`REMEMBER_SECONDS`."""
        time = self._names.get(key, {}).get(name)
        return time is not None and 0 <= (now - time).total_seconds() < REMEMBER_SECONDS

    def note(self, key: JobKey, name: str, now: datetime) -> None:
        """Remembers an event that was published or dropped; beyond :data:`REMEMBERED` the oldest is forgotten."""
        names_of_job = self._names.setdefault(key, {})
        names_of_job.pop(name, None)
        names_of_job[name] = now
        if len(names_of_job) > REMEMBERED:
            del names_of_job[next(iter(names_of_job))]

    def forget(self, key: JobKey) -> None:
        """The job is gone."""
        self._names.pop(key, None)


def event_name(event: JobEvent, job: JobIdentity) -> str:
    """The event's name, a function of the occurrence, so that a repetition is a duplicate."""
    digest = hashlib.sha256(f"{job.uid}/{event.occurrence}/{event.reason}".encode()).hexdigest()[:16]
    return f"{job.name}.{digest}"


def event_manifest(event: JobEvent, job: JobIdentity, *, resource_version: str, now: datetime) -> dict[str, Any]:
    """The event's manifest."""
    time = format_time(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(event, job), "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": names.KIND,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
            "resourceVersion": resource_version,
        },
        "reason": str(event.reason),
        "message": event.note,
        "type": "Warning" if event.warning else "Normal",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": names.MANAGED_BY},
        "reportingComponent": names.MANAGED_BY,
        "reportingInstance": names.MANAGED_BY,
    }
