"""The state that the watches have brought: enough for a plan that creates and deletes nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafkasparkjob_operator.decisions.checks.code import config_map_of
from kafkasparkjob_operator.decisions.checks.heartbeat import STALE_SECONDS
from kafkasparkjob_operator.decisions.checks.prefix_needs import PrefixNeeds, claims, need_of
from kafkasparkjob_operator.decisions.checks.snapshots import may_keep_state
from kafkasparkjob_operator.decisions.standby import STANDBY_AGAIN_SECONDS
from kafkasparkjob_operator.identity import ANNOTATION_PAUSE, JobIdentity, JobKey
from kafkasparkjob_operator.observation.ages import UNKNOWN, Ages, ObservedReport, is_heartbeat, marks_of
from kafkasparkjob_operator.observation.named_snapshots import NamedSnapshots
from kafkasparkjob_operator.observation.observation import (
    JobResource,
    Observation,
    PrefixRefusal,
    job_resource,
    prepared_of,
    report_body,
    report_of,
)
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.observation.snapshot_view import SnapshotView, snapshot_view
from kafkasparkjob_operator.workload import NO_SETTINGS, JobSettings
from sparkapp.model import names
from sparkapp.model.report import Report

ENDED_KEPT = 8
"""Finished drivers of a job whose termination messages are kept."""
FRESH_SECONDS = 120.0
"""Age of a report at which its driver counts as gone, for what is no decision about the job."""
SPARED_SECONDS = 300.0
"""Pause behind a deletion of a snapshot that was not carried out."""
_MAX_FLAG = 8
"""Characters of an annotation that are kept: more than ``true`` has."""
_METADATA = (
    "namespace",
    "name",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
)


class Cache:
    """Jobs, their pods and their reports, as last seen.

    Called by the handlers (writes), the reconciler (reads, and writes results of live looks and answers to writes) and
    the metrics. The cache may be behind. Therefore nothing is created or deleted by it, and a status is written only at
    the version that was read.

    The cache never goes back (ADR 18). An answer must not replace an event that a watch brought meanwhile, because the
    watch does not repeat it. Versions are opaque and cannot be compared, so the watch's event stays.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        prefixes: Mapping[str, tuple[str, ...]] | None = None,
        settings: JobSettings = NO_SETTINGS,
    ) -> None:
        """
        :param clock: monotonic seconds; it measures the ages of reports, and no clock of a driver does.
        :param prefixes: beginnings of transactional id prefixes that a namespace may use in addition to its own.
        :param settings: the administrator's, for all jobs.
        """
        self._settings = settings
        self._clock = clock
        self._observed: dict[JobKey, ObservedReport] = {}
        self._code: dict[JobKey, str] = {}
        self._jobs: dict[JobKey, tuple[str, bytes]] = {}
        self._modules: dict[JobKey, str] = {}
        self._stateful: set[JobKey] = set()
        self._pods: dict[JobKey, dict[str, PodView]] = {}
        self._reports: dict[JobKey, Mapping[str, Any]] = {}
        self._ended: dict[JobKey, dict[str, PodView]] = {}
        self._attempts: dict[JobKey, Mapping[int, str]] = {}
        self._changes: dict[JobKey, int] = {}
        self._needs = PrefixNeeds(prefixes, claims=self._claims_names)
        self._access: set[JobKey] = set()
        self._standby_refused: dict[JobKey, tuple[str, int, float]] = {}
        self._snapshots: dict[JobKey, dict[str, SnapshotView]] = {}
        self._job_of_snapshot: dict[JobKey, JobKey] = {}
        self._named, self._spared = NamedSnapshots(), dict[JobKey, float]()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def keys(self) -> list[JobKey]:
        return list(self._jobs)

    @property
    def stateful(self) -> list[JobKey]:
        """The jobs whose spec names a place for state: a volume or a bucket."""
        return list(self._stateful)

    @property
    def modules(self) -> list[tuple[JobKey, str]]:
        """The jobs with modules, each with its ConfigMap. No text of a job is read for it."""
        return list(self._modules.items())

    def changes(self, key: JobKey) -> int:
        """The number of changes that watches have brought for the job; for :meth:`put_look`."""
        return self._changes.get(key, 0)

    def put_look(
        self,
        body: Mapping[str, Any],
        pods: Iterable[PodView],
        report: Mapping[str, Any] | None,
        *,
        since: int,
        claims: Mapping[int, str],
        code: str,
    ) -> bool:
        """Stores the result of a live look; it also heals lost watch events.

        :param claims: UIDs of the attempts' ConfigMaps, by number, which are not watched.
        :param code: digest of the job's modules.
        :param since: :meth:`changes` when the look began.
        :returns: False where a watch has brought a change meanwhile: nothing is stored; look again.
        """
        key = _key(body)
        if self.changes(key) != since:
            return False
        self._keep_job(key, body)
        self._pods[key] = {pod.uid: pod for pod in pods}
        self._attempts[key] = claims
        self._code[key] = code
        if report is not None:
            self._keep_report(key, report)
        return True

    def put_answer(self, body: Mapping[str, Any], *, instead_of: str) -> None:
        """Stores the answer to a write of the job.

        :param instead_of: :meth:`version` when the write began; a version that a watch has brought since stays.
        """
        key = _key(body)
        if self.version(key) == instead_of:
            self._keep_job(key, body)

    def put_job(self, body: Mapping[str, Any]) -> JobKey:
        """Stores a job that the watch, or a sweep, has brought."""
        key = _key(body)
        self._count_change(key)
        self._keep_job(key, body)
        return key

    def _keep_job(self, key: JobKey, body: Mapping[str, Any]) -> None:
        """Stores text without managed fields: a tenth of the memory of the object tree."""
        meta = body["metadata"]
        pause = (meta.get("annotations") or {}).get(ANNOTATION_PAUSE, "")[:_MAX_FLAG]
        slim = {
            "metadata": {name: meta[name] for name in _METADATA if name in meta}
            | ({"annotations": {ANNOTATION_PAUSE: pause}} if pause else {}),
            "spec": body.get("spec") or {},
            "status": body.get("status") or {},
        }
        self._jobs[key] = (str(meta.get("resourceVersion", "")), json.dumps(slim, separators=(",", ":")).encode())
        self._needs.put(key, need_of(body, self._settings))
        self._named.put(key, slim["spec"])
        modules = config_map_of(slim["spec"])
        if modules:
            self._modules[key] = modules
        else:
            self._modules.pop(key, None)
        if may_keep_state(slim["spec"]):
            self._stateful.add(key)
        else:
            self._stateful.discard(key)

    def _claims_names(self, key: JobKey) -> bool:
        found = self._jobs.get(key)
        return found is not None and claims(json.loads(found[1]), self._settings)

    def prefix_refusal(self, key: JobKey) -> PrefixRefusal | None:
        """Why the job may not have its transactional id prefix; None where it may."""
        return self._needs.refusal(key)

    def drop_job(self, key: JobKey) -> None:
        """Removes a job that the watch reports as deleted."""
        self._count_change(key)
        self._drop(key)

    def forget(self, key: JobKey) -> None:
        """Removes a job that a live look did not find."""
        self._drop(key)
        self._changes.pop(key, None)

    def _drop(self, key: JobKey) -> None:
        self._needs.drop(key)
        self._named.drop(key)
        for part in (
            self._jobs, self._pods, self._reports, self._ended, self._attempts, self._observed, self._code,
            self._standby_refused, self._modules,
        ):  # fmt: skip
            part.pop(key, None)
        self._access.discard(key)
        self._stateful.discard(key)

    def version(self, key: JobKey) -> str:
        """Resource version of the cached job; empty where it is unknown."""
        return self._jobs.get(key, ("", b""))[0]

    def put_pod(self, key: JobKey, pod: PodView) -> bool:
        """Stores a pod that the watch has brought; False where the cache has it as it is."""
        if self._pods.get(key, {}).get(pod.uid) == pod:
            return False
        self._count_change(key)
        self._pods.setdefault(key, {})[pod.uid] = pod
        if pod.finished and pod.role == names.ROLE_DRIVER and not pod.awaits_activation:
            ended = self._ended.setdefault(key, {})
            ended[pod.uid] = pod
            if len(ended) > ENDED_KEPT:
                del ended[next(iter(ended))]
        return True

    def ended_driver(self, key: JobKey, uid: str) -> PodView | None:
        """The finished driver with that UID and its termination message, although its pod may be gone."""
        return self._ended.get(key, {}).get(uid)

    def drop_pod(self, key: JobKey, uid: str) -> None:
        self._count_change(key)
        pods = self._pods.get(key)
        if pods is not None:
            pods.pop(uid, None)
            if not pods:
                del self._pods[key]

    def put_snapshot(self, body: Mapping[str, Any]) -> JobKey | None:
        """Stores a snapshot that the operator has made, also of a job that is gone.

        :returns: the job; None for a snapshot of a person, which is not stored.
        """
        found = snapshot_view(body)
        if found is None:
            return None
        key, view = found
        self._snapshots.setdefault(key, {})[view.name] = view
        self._job_of_snapshot[_key(body)] = key
        return key

    def drop_snapshot(self, snapshot: JobKey) -> JobKey | None:
        """Removes a snapshot that is gone.

        :param snapshot: its namespace and name.
        :returns: its job; None where it is unknown.
        """
        self._spared.pop(snapshot, None)
        key = self._job_of_snapshot.pop(snapshot, None)
        if key is not None:
            self._snapshots[key].pop(snapshot.name, None)
            if not self._snapshots[key]:
                del self._snapshots[key]
        return key

    def snapshots(self, key: JobKey) -> tuple[SnapshotView, ...]:
        """The snapshots that the operator has made of jobs of that name."""
        found = self._snapshots.get(key, {}).values()
        return tuple(
            replace(view, kept=True) if self._is_kept(JobKey(key.namespace, view.name)) else view for view in found
        )

    def _is_kept(self, snapshot: JobKey) -> bool:
        return snapshot in self._named or self._clock() < self._spared.get(snapshot, 0.0)

    def spare_snapshot(self, snapshot: JobKey) -> None:
        """Notes that a snapshot was not deleted as planned: no plan deletes it for :data:`SPARED_SECONDS`."""
        self._spared[snapshot] = self._clock() + SPARED_SECONDS

    def put_report(self, key: JobKey, body: Mapping[str, Any]) -> bool:
        """Stores a report that the watch has brought.

        :returns: False for a heartbeat: no plan would differ. A value whose age may have had a verdict is news.
        """
        before = self._reports.get(key)
        self._count_change(key)
        age = self._keep_report(key, body)
        _, job = self._jobs.get(key, ("", b""))
        return age >= STALE_SECONDS or not is_heartbeat(before, self._reports[key], needs_load=b'"autoscaler"' in job)

    def _keep_report(self, key: JobKey, body: Mapping[str, Any]) -> float:
        """Stores the report in limited size: a ConfigMap may have 1 MiB, and a tenant many of them.

        :returns: the longest age of a value that has changed.
        """
        kept = self._reports[key] = report_body(body)
        return self._observed.setdefault(key, ObservedReport(self._clock)).see(marks_of(kept))

    def ages(self, key: JobKey, found: Mapping[str, Any] | None = None) -> Ages:
        """Seconds since the report and its values were seen to change; 0 where none is known.

        :param found: a report of a live look, which may be newer than the cached report.
        """
        observed = self._observed.get(key)
        if observed is None:
            return UNKNOWN
        return observed.ages(None if found is None else marks_of(report_body(found)))

    def restart_ages(self, *keys: JobKey) -> None:
        """Counts the ages of the jobs' reports from now: this operator could not see whether they changed.

        :param keys: none for all jobs.
        """
        for key in keys or tuple(self._observed):
            if key in self._observed:
                self._observed[key].restart()

    def access_changed(self, key: JobKey) -> None:
        """Notes that somebody has changed an object that the driver needs, or may have: the next look is live."""
        self._access.add(key)

    def take_access_change(self, key: JobKey) -> bool:
        """True once after :meth:`access_changed`."""
        changed = key in self._access
        self._access.discard(key)
        return changed

    def refuse_standby(self, key: JobKey, driver_uid: str, generation: int, *, lasts: bool) -> None:
        """Notes that no standby driver could be created next to the driver for that generation of the resource.

        :param lasts: Kubernetes refused it; any other failure counts for :data:`STANDBY_AGAIN_SECONDS`.
        """
        until = math.inf if lasts else self._clock() + STANDBY_AGAIN_SECONDS
        self._standby_refused[key] = (driver_uid, generation, until)

    def standby_refused(self, key: JobKey, driver_uid: str) -> int:
        """The generation that was last noted for the driver; 0 for none."""
        uid, generation, until = self._standby_refused.get(key, ("", 0, 0.0))
        return generation if uid == driver_uid and self._clock() < until else 0

    def put_code(self, key: JobKey, digest: str) -> bool:
        """Stores the digest of the job's modules that their watch has read; False where the cache has it already."""
        if self._code.get(key) == digest:
            return False
        self._count_change(key)
        self._code[key] = digest
        return True

    def drop_report(self, key: JobKey) -> None:
        """The report's ConfigMap is gone. A driver cannot create it."""
        self._count_change(key)
        self._reports.pop(key, None)
        self._observed.pop(key, None)
        self.access_changed(key)

    def _count_change(self, key: JobKey) -> None:
        self._changes[key] = self._changes.get(key, 0) + 1

    def job(self, key: JobKey) -> JobResource | None:
        found = self._jobs.get(key)
        return job_resource(json.loads(found[1])) if found is not None else None

    def report(self, key: JobKey, identity: JobIdentity) -> Report | None:
        return report_of(self._reports.get(key), identity)

    def fresh_report(self, key: JobKey, uid: str) -> Report | None:
        """The report of that incarnation of a job; None where its driver has sent none for some time."""
        return self.report(key, JobIdentity(*key, uid)) if self.ages(key).report <= FRESH_SECONDS else None

    def observe(self, key: JobKey) -> Observation | None:
        """The job as last seen; None where it is unknown."""
        job = self.job(key)
        if job is None:
            return None
        return Observation(
            job=job,
            pods=tuple(self._pods.get(key, {}).values()),
            report=self.report(key, job.identity),
            ages=self.ages(key),
            code=self._code.get(key, ""),
            prepared=prepared_of(self._reports.get(key), job.identity),
            claims=self._attempts.get(key, {}),
            standby_refused=self.standby_refused(key, job.driver_uid),
            snapshots=self.snapshots(key),
        )


def _key(body: Mapping[str, Any]) -> JobKey:
    meta = body["metadata"]
    return JobKey(meta["namespace"], meta["name"])
