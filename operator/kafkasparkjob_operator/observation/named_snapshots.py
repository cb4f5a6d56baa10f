"""Snapshots that specs name: retention leaves them alone (ADR 123)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.identity import JobKey


def named_snapshots(spec: object) -> frozenset[str]:
    """What ``startFrom`` and ``restore`` of a job name, also of a spec that cannot be read.

    Whether the job has begun there does not matter. A raised nonce goes there once more, and so do a stateless start
    and a job that is created again with the same manifest.
    """
    fields: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
    found = (fields.get(name) for name in ("startFrom", "restore"))
    return frozenset(str(each["snapshot"]) for each in found if isinstance(each, Mapping) and each.get("snapshot"))


class NamedSnapshots:
    """What all watched jobs name. Called by the cache, which may be behind."""

    def __init__(self) -> None:
        self._of_job: dict[JobKey, frozenset[str]] = {}
        self._jobs: Counter[JobKey] = Counter()

    def put(self, job: JobKey, spec: object) -> None:
        """The resource has changed."""
        self.drop(job)
        named = named_snapshots(spec)
        if named:
            self._of_job[job] = named
            self._jobs.update(JobKey(job.namespace, name) for name in named)

    def drop(self, job: JobKey) -> None:
        for name in self._of_job.pop(job, ()):
            snapshot = JobKey(job.namespace, name)
            self._jobs[snapshot] -= 1
            if not self._jobs[snapshot]:
                del self._jobs[snapshot]

    def __contains__(self, snapshot: JobKey) -> bool:
        """Whether a job of its namespace names it."""
        return snapshot in self._jobs
