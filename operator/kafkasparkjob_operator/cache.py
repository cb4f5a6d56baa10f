"""What the watches have told: enough to answer without a request where nothing has to be created or deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity, JobKey
from kafkasparkjob_operator.observation import JobResource, Observation, job_resource, report_of
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.prefixes import PrefixClaims, claim_of
from sparkapp.model import names
from sparkapp.model.report import Report

_METADATA = ("namespace", "name", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp")


class Cache:
    """Jobs, their pods and their reports, as last seen.

    Called by the handlers (writes), the reconciler (reads, and writes what a live look showed) and the metrics. It may
    be behind; therefore nothing is created or deleted by it, and a status is written only at the version that was read.
    """

    def __init__(self) -> None:
        self._jobs: dict[JobKey, tuple[str, bytes]] = {}
        self._pods: dict[JobKey, dict[str, PodView]] = {}
        self._reports: dict[JobKey, Mapping[str, Any]] = {}
        self._ended: dict[JobKey, PodView] = {}
        self._claims = PrefixClaims()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def keys(self) -> list[JobKey]:
        return list(self._jobs)

    def put_job(self, body: Mapping[str, Any]) -> JobKey:
        """Kept as text without managed fields: a tenth of the memory of the object tree."""
        meta = body["metadata"]
        key = JobKey(meta["namespace"], meta["name"])
        slim = {
            "metadata": {name: meta[name] for name in _METADATA if name in meta},
            "spec": body.get("spec") or {},
            "status": body.get("status") or {},
        }
        self._jobs[key] = (str(meta.get("resourceVersion", "")), json.dumps(slim, separators=(",", ":")).encode())
        self._claims.put(key, claim_of(body))
        return key

    def prefix_rival(self, key: JobKey) -> JobKey | None:
        """An older job with the same transactional id prefix on the same Kafka cluster."""
        return self._claims.older_claimant(key)

    def drop_job(self, key: JobKey) -> None:
        self._claims.drop(key)
        for part in (self._jobs, self._pods, self._reports, self._ended):
            part.pop(key, None)

    def version(self, key: JobKey) -> str:
        """Resource version of the job as watched; empty where it is unknown."""
        return self._jobs.get(key, ("", b""))[0]

    def put_pod(self, key: JobKey, pod: PodView) -> None:
        self._pods.setdefault(key, {})[pod.uid] = pod
        if pod.finished and pod.role == names.ROLE_DRIVER:
            self._ended[key] = pod

    def ended_driver(self, key: JobKey) -> PodView | None:
        """The driver that was last seen finished, and its last words, although its pod may be gone by now."""
        return self._ended.get(key)

    def drop_pod(self, key: JobKey, uid: str) -> None:
        pods = self._pods.get(key)
        if pods is not None:
            pods.pop(uid, None)
            if not pods:
                del self._pods[key]

    def replace_pods(self, key: JobKey, pods: Iterable[PodView]) -> None:
        """What a live look showed: it also heals a deletion that no watch told of."""
        self._pods[key] = {pod.uid: pod for pod in pods}

    def put_report(self, key: JobKey, body: Mapping[str, Any]) -> None:
        self._reports[key] = {"data": body.get("data") or {}}

    def drop_report(self, key: JobKey) -> None:
        self._reports.pop(key, None)

    def job(self, key: JobKey) -> JobResource | None:
        found = self._jobs.get(key)
        return job_resource(json.loads(found[1])) if found is not None else None

    def report(self, key: JobKey, identity: JobIdentity) -> Report | None:
        return report_of(self._reports.get(key), identity)

    def observe(self, key: JobKey) -> Observation | None:
        """The job as last seen, or None for an unknown one."""
        job = self.job(key)
        if job is None:
            return None
        return Observation(job=job, pods=tuple(self._pods.get(key, {}).values()), report=self.report(key, job.identity))
