"""The observation of a job: the input of the state machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.identity import (
    ANNOTATION_MODULES,
    ANNOTATION_PAUSE,
    FINALIZER,
    ROLE_ATTEMPT,
    ROLE_MODULES,
    ROLE_REVISION,
    JobIdentity,
    JobKey,
    owner_uid,
)
from kafkasparkjob_operator.observation.ages import UNKNOWN, Ages
from kafkasparkjob_operator.observation.pod_view import PodView, number_of, pod_view
from kafkasparkjob_operator.observation.quota_view import QuotaRow
from kafkasparkjob_operator.observation.snapshot_view import SnapshotView
from kafkasparkjob_operator.observation.state_view import StateView, state_view
from kafkasparkjob_operator.resources.config_maps import (
    CLUSTER_ID_KEY,
    CODE_KEY,
    DEFAULT_IMAGE_KEY,
    REFERENCES_KEY,
    REMOVES_STATE_KEY,
    RESOURCE_SPEC_KEY,
    REVISION_NAME_KEY,
    SETTLES_KEY,
    STATELESS_KEY,
)
from kafkasparkjob_operator.resources.references import References, recorded_references
from kafkasparkjob_operator.resources.revisions import Revision, read_revision
from sparkapp.model import names
from sparkapp.model.encoding.untrusted import whole_of
from sparkapp.model.report import MAX_REPORT_BYTES, Report, decode_report

NUMBERS_AHEAD = 100_000
"""The most by which an attempt's number may exceed status and state document; each failed start takes a number."""

MAX_UID = 64
"""Characters of a UID that are kept; Kubernetes' own have 36."""
_KEPT = re.compile(r"[cr][0-9a-f]{10}")
"""End of the names of revisions and of copies of modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResource:
    """The custom resource.

    :param paused: somebody has asked for no changes, by an annotation.
    """

    identity: JobIdentity
    generation: int
    resource_version: str
    deleting: bool
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    created: datetime | None = None
    finalizers: tuple[str, ...] = ()
    paused: bool = False

    @property
    def held(self) -> bool:
        """True where the resource has the operator's finalizer."""
        return FINALIZER in self.finalizers

    @property
    def driver_uid(self) -> str:
        """UID of the driver pod that the status records; empty before the first attempt."""
        return str(self.status.get("attempt", {}).get("driverPodUID", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """An attempt's ConfigMap: proof that its number is taken, and the spec that it was started with.

    :param name: of the ConfigMap.
    :param owner_uid: UID of the resource that the attempt was started for.
    :param uid: UID of the ConfigMap.
    :param created: by the API server's clock; None where it cannot be read.
    :param settles: the attempt was started to settle the transactions of a job that is being deleted.
    :param removes_state: likewise, and to remove its query state.
    :param default_image: the attempt's image, where ``spec`` names none.
    :param references: the names that the attempt's executors refer to.
    :param code: digest of the modules at the start; empty where it was unknown, or an older release started it.
    :param revision: the ConfigMap of its revision; empty where it only settles, or an older release started it.
    :param stateless: the first attempt that was to begin without the checkpoint; 0 for none.
    :param cluster_id: of the Kubernetes cluster, in its default names at Kafka; empty for none.
    """

    attempt: int
    owner_uid: str
    generation: int
    spec: Mapping[str, Any]
    created: datetime | None = None
    uid: str = ""
    name: str = ""
    settles: bool = False
    removes_state: bool = False
    default_image: str = ""
    references: References = field(default_factory=References)
    code: str = ""
    revision: str = ""
    stateless: int = 0
    cluster_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The ConfigMap of a revision, or a copy of modules, by its metadata.

    :param modules: of a revision: the copy of its modules; empty without any.
    """

    name: str
    uid: str
    created: datetime | None
    modules: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The part of an observation that only a live look at the API server has, never the cache.

    :param foreign: names of ConfigMaps with the labels of an attempt of the job that are none.
    :param taken: names of attempts' objects that the API server refused, because foreign objects have them.
    :param stable: the revision of ``status.stable``; None where there is none, or it cannot be read.
    :param revisions: of this incarnation of the resource. :param modules: likewise, copies of modules.
    """

    state: StateView
    records: tuple[AttemptRecord, ...]
    revisions: tuple[Kept, ...] = ()
    modules: tuple[Kept, ...] = ()
    stable: Revision | None = None
    foreign: tuple[str, ...] = ()
    taken: frozenset[str] = frozenset()

    def references(self, job: JobIdentity) -> References:
        """What executors of the job's attempts refer to, of every attempt that has its ConfigMap."""
        return References().union(record.references for record in self.records if record.owner_uid == job.uid)


@dataclass(frozen=True, slots=True)
class PrefixRefusal:
    """Why a job may not have its transactional id prefix, or its consumer group: reason and message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A job at a moment.

    :param pods: every pod with the job's labels, of any attempt; pods of a deleted resource of the same name included.
    :param foreign: pods that only have the labels (:mod:`~kafkasparkjob_operator.decisions.checks.belonging`).
    :param claims: UID of each attempt's ConfigMap, by number, as the last live look found them.
    :param ended_driver: the driver that a watch last saw finished; its pod may be gone already.
    :param prefix_refusal: why the job may not have its transactional id prefix, or its consumer group.
    :param ages: of the report and its values, by this process's monotonic clock.
    :param code: digest of the user's modules; empty where it is unknown, or there are none.
    :param prepared: the attempt that last reported that its standby driver is prepared; untrusted.
    :param standby_refused: the generation for which this process could not create a standby driver; 0 for none.
    :param snapshots: that the operator has made of a job of this name, as the watch has brought them.
    :param quotas: of the namespace; None where they were not asked.
    :param may_restart: False while the operator lets too many other jobs restart at the same time.
    :param live: None where the observation comes from the cache; a plan that creates or deletes needs a live look.
    """

    job: JobResource
    pods: tuple[PodView, ...]
    report: Report | None
    ages: Ages = UNKNOWN
    code: str = ""
    prepared: int = 0
    live: Live | None = None
    ended_driver: PodView | None = None
    prefix_refusal: PrefixRefusal | None = None
    standby_refused: int = 0
    may_restart: bool = True
    foreign: tuple[PodView, ...] = ()
    snapshots: tuple[SnapshotView, ...] = ()
    claims: Mapping[int, str] = field(default_factory=dict)
    quotas: tuple[QuotaRow, ...] | None = None


def job_resource(body: Mapping[str, Any]) -> JobResource:
    """Reads the custom resource; a spec or status that is no object counts as empty."""
    meta = body["metadata"]
    spec, status = body.get("spec"), body.get("status")
    return JobResource(
        identity=JobIdentity(meta["namespace"], meta["name"], meta["uid"]),
        generation=int(meta.get("generation", 0)),
        resource_version=str(meta.get("resourceVersion", "")),
        deleting=bool(meta.get("deletionTimestamp")),
        spec=spec if isinstance(spec, Mapping) else {},
        status=status if isinstance(status, Mapping) else {},
        created=parse_time(meta.get("creationTimestamp")),
        finalizers=tuple(meta.get("finalizers") or ()),
        paused=(meta.get("annotations") or {}).get(ANNOTATION_PAUSE) == "true",
    )


def job_key(body: Mapping[str, Any]) -> JobKey | None:
    """The job that a watched pod or ConfigMap belongs to."""
    meta = body["metadata"]
    name = (meta.get("labels") or {}).get(names.LABEL_JOB)
    return JobKey(meta["namespace"], name) if name else None


def report_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the cache keeps of a report's ConfigMap: owner, report and prepared attempt, each of limited size.

    A report that is too large becomes empty, which is as unreadable. Every other key of the ConfigMap is left out.
    """
    data = body.get("data") or {}
    text, prepared = (str(data.get(name) or "") for name in (names.REPORT_KEY, names.PREPARED_KEY))
    return {
        "metadata": {"ownerReferences": [{"kind": names.KIND, "uid": owner_uid(body)[:MAX_UID]}]},
        "data": {
            names.REPORT_KEY: text if len(text.encode()) <= MAX_REPORT_BYTES else "",
            names.PREPARED_KEY: prepared[:MAX_UID],
        },
    }


def report_of(body: Mapping[str, Any] | None, job: JobIdentity) -> Report | None:
    """The driver's report, untrusted; None where this job has no readable report.

    The ConfigMap has to be owned by this incarnation of the resource; its name was compared before.
    """
    if body is None or owner_uid(body) != job.uid:
        return None
    return decode_report((body.get("data") or {}).get(names.REPORT_KEY) or "", job_uid=job.uid)


def prepared_of(body: Mapping[str, Any] | None, job: JobIdentity) -> int:
    """The attempt whose standby driver reports that it is prepared, 0 for none; as untrusted as the report."""
    if body is None or owner_uid(body) != job.uid:
        return 0
    return number_of((body.get("data") or {}).get(names.PREPARED_KEY) or "")


def live_observation(
    body: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    config_maps: Iterable[Mapping[str, Any]],
    *,
    ages: Ages = UNKNOWN,
    code: str = "",
    ended_driver: PodView | None = None,
    taken: frozenset[str] = frozenset(),
) -> Observation:
    """Builds the observation from a live look at the API server."""
    job = job_resource(body)
    by_name = {config_map["metadata"]["name"]: config_map for config_map in config_maps}
    report = by_name.get(names.report_config_map(job.identity.name))
    state = state_view(by_name.get(names.state_config_map(job.identity.name)), job.identity)
    labelled = {name: attempt_record(body) for name, body in by_name.items() if _role(body) == ROLE_ATTEMPT}
    known = max(recorded_number(job), state.document.attempt if state.document is not None else 0)
    records = {
        name: record
        for name, record in labelled.items()
        if record is not None
        and has_name_of_attempt(record, job.identity.name)
        and record.attempt <= known + NUMBERS_AHEAD
    }
    return Observation(
        job=job,
        pods=tuple(view for view in map(pod_view, pods) if view is not None),
        report=report_of(report, job.identity),
        ages=ages if report is not None else UNKNOWN,
        code=code,
        prepared=prepared_of(report, job.identity),
        ended_driver=ended_driver,
        claims={record.attempt: record.uid for record in records.values() if record.owner_uid == job.identity.uid},
        live=Live(
            state=state,
            records=tuple(sorted(records.values(), key=lambda record: record.attempt)),
            revisions=_kept(by_name, job.identity, ROLE_REVISION),
            modules=_kept(by_name, job.identity, ROLE_MODULES),
            stable=_revision(by_name.get(stable_revision(job)), job.identity),
            foreign=tuple(sorted(set(labelled) - set(records))),
            taken=taken,
        ),
    )


def recorded_number(job: JobResource) -> int:
    """The attempt that the status records; 0 before the first attempt."""
    number = job.status.get("attempt", {}).get("id", 0)
    return number if isinstance(number, int) and number > 0 else 0


def cluster_id_of(status: Mapping[str, Any]) -> str:
    """The id of the Kubernetes cluster in the job's default names at Kafka; empty for none."""
    return str(status.get(CLUSTER_ID_KEY) or "")


def stable_revision(job: JobResource) -> str:
    """The ConfigMap of the revision that ``status.stable`` names; empty for none."""
    stable = job.status.get("stable")
    return str(stable.get("revision") or "") if isinstance(stable, Mapping) else ""


def _revision(body: Mapping[str, Any] | None, job: JobIdentity) -> Revision | None:
    return None if body is None or owner_uid(body) != job.uid else read_revision(body)


def has_name_of_attempt(record: AttemptRecord, job: str) -> bool:
    """Whether the operator named the ConfigMap so, for the resource that owns it; also before ADR 64.

    Called for every ConfigMap with the labels of an attempt of the job.
    """
    own = names.attempt_config_map(job, record.owner_uid, record.attempt)
    return record.name in {own, names.previous_attempt_config_map(job, record.attempt)}


def attempt_record(body: Mapping[str, Any]) -> AttemptRecord | None:
    """Reads an attempt's ConfigMap; without a readable spec it still proves that its number is taken."""
    attempt = number_of((body["metadata"].get("labels") or {}).get(names.LABEL_ATTEMPT, ""))
    if not attempt:
        return None
    try:
        recorded = json.loads((body.get("data") or {}).get(RESOURCE_SPEC_KEY, ""))
        generation, spec = whole_of(recorded["generation"]), dict(recorded["spec"])
        settles, image = recorded.get(SETTLES_KEY) is True, str(recorded.get(DEFAULT_IMAGE_KEY, ""))
        references, code = recorded_references(recorded.get(REFERENCES_KEY)), str(recorded.get(CODE_KEY, ""))
        revision, stateless = str(recorded.get(REVISION_NAME_KEY, "")), whole_of(recorded.get(STATELESS_KEY, 0))
        cluster_id, removes = str(recorded.get(CLUSTER_ID_KEY, "")), recorded.get(REMOVES_STATE_KEY) is True
    except (ValueError, TypeError, KeyError, RecursionError):
        generation, spec, settles, image, references, code, revision = 0, {}, False, "", References(), "", ""
        stateless, cluster_id, removes = 0, "", False
    created = parse_time(body["metadata"].get("creationTimestamp"))
    return AttemptRecord(
        attempt=attempt, owner_uid=owner_uid(body), generation=generation, spec=spec, created=created,
        uid=str(body["metadata"].get("uid", "")), name=str(body["metadata"].get("name", "")), settles=settles,
        default_image=image, references=references, code=code, revision=revision, stateless=stateless,
        cluster_id=cluster_id, removes_state=removes,
    )  # fmt: skip


def _kept(by_name: Mapping[str, Mapping[str, Any]], job: JobIdentity, role: str) -> tuple[Kept, ...]:
    """Without foreign objects: by owner, and by a name that the operator gives."""
    return tuple(
        Kept(
            name=name,
            uid=str(body["metadata"].get("uid", "")),
            created=parse_time(body["metadata"].get("creationTimestamp")),
            modules=str((body["metadata"].get("annotations") or {}).get(ANNOTATION_MODULES, "")),
        )
        for name, body in sorted(by_name.items())
        if _role(body) == role and owner_uid(body) == job.uid and _KEPT.fullmatch(name.removeprefix(f"{job.name}-"))
    )


def _role(body: Mapping[str, Any]) -> str:
    return str((body["metadata"].get("labels") or {}).get(names.LABEL_ROLE, ""))
