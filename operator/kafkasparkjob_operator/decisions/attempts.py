"""Attempts: their numbers, what a start writes into the status, and what attempts may have left open.

Numbers only grow, whatever is lost, so a recreated resource never reuses a name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.endings import ending_of
from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.observation import (
    AttemptRecord,
    Kept,
    Live,
    Observation,
    cluster_id_of,
    recorded_number,
    stable_revision,
)
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.observation.state_view import StateKind
from kafkasparkjob_operator.resources.config_maps import CLUSTER_ID_KEY
from kafkasparkjob_operator.resources.revisions import KEPT, modules_name
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.phases import FIRST_REPORT_SECONDS
from kafkasparkjob_operator.status.reasons import StartReason, StopReason
from kafkasparkjob_operator.status.status import StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, JobSettings, desired_from_resource
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.sections.retention import due_snapshot
from sparkapp.model.report import DriverState, Report

AWAIT_CLAIMANT = 10.0
"""Seconds to wait for the driver pod of a claimed attempt; the claimant creates it right after the ConfigMap."""
CODE_DIGEST = "codeDigest"
"""``status.attempt``: digest of the modules that the attempt was started with."""
REVISION = "revision"
"""``status.attempt``: the ConfigMap of the attempt's revision."""

_START_AFTER_STOP: dict[str, StartReason] = {
    StopReason.SUSPEND: StartReason.RESUMED,
    StopReason.RESCALE: StartReason.RESCALED,
    StopReason.SPEC_CHANGE: StartReason.SPEC_CHANGED,
    StopReason.ROLLBACK: StartReason.ROLLED_BACK,
}


def settings_of(observation: Observation, settings: JobSettings) -> JobSettings:
    """The administrator's settings for one job, whose names at Kafka never change by themselves.

    A job keeps the cluster id that its first attempt had, or keeps having none. Called at the begin of a plan. Where
    the status is lost the live look has the attempts' ConfigMaps; nothing is started or stopped before it.
    """
    job, live = observation.job, observation.live
    if CLUSTER_ID_KEY in job.status or recorded_number(job):
        return replace(settings, cluster_id=cluster_id_of(job.status))
    uid = job.identity.uid
    records = [record for record in live.records if record.owner_uid == uid] if live is not None else []
    if records:
        return replace(settings, cluster_id=max(records, key=lambda record: record.attempt).cluster_id)
    document = None if live is None else live.state.document
    new = names.default_transactional_id_prefix(job.identity.namespace, job.identity.name, settings.cluster_id)
    return settings if document is None or document.prefix == new else replace(settings, cluster_id="")


def own_drivers(observation: Observation) -> list[PodView]:
    """Driver pods of this incarnation of the resource, without standby drivers.

    A driver of a deleted resource of the same name is not among them. A standby driver has touched nothing of the job.
    """
    return [pod for pod in _drivers(observation) if not pod.awaits_activation]


def standby_drivers(observation: Observation) -> list[PodView]:
    """Standby drivers of this incarnation of the resource, ended drivers included; newest first."""
    found = [pod for pod in _drivers(observation) if pod.awaits_activation]
    return sorted(found, key=lambda pod: pod.attempt, reverse=True)


def _drivers(observation: Observation) -> list[PodView]:
    uid = observation.job.identity.uid
    return [pod for pod in observation.pods if pod.role == names.ROLE_DRIVER and pod.owner_uid == uid]


def recorded_attempt(observation: Observation) -> int:
    """The attempt that the status records; 0 before the first attempt."""
    return recorded_number(observation.job)


def current_attempt(observation: Observation) -> int:
    """The newest attempt of this incarnation of the resource, even where its status was lost or not yet written."""
    return max([recorded_attempt(observation), *(pod.attempt for pod in own_drivers(observation))])


def next_attempt(observation: Observation, live: Live) -> int:
    """A number above every number in status, pods, attempt ConfigMaps and state document.

    Foreign objects raise no number. A number whose object names are taken by foreign objects is skipped.
    """
    document = live.state.document
    number = 1 + max(
        [
            current_attempt(observation),
            document.attempt if document is not None else 0,
            *(pod.attempt for pod in observation.pods),
            *(record.attempt for record in live.records),
        ]
    )
    _, job, uid = observation.job.identity
    taken = {pod.name for pod in observation.foreign} | {*live.foreign, *live.taken}
    while {names.driver_pod(job, number), names.attempt_config_map(job, uid, number)} & taken:
        number += 1
    return number


def record_of(live: Live, attempt: int, uid: str) -> AttemptRecord | None:
    """The ConfigMap of an attempt of this incarnation of the resource."""
    return next((record for record in live.records if record.attempt == attempt and record.owner_uid == uid), None)


def started_generation(draft: StatusDraft, observation: Observation, live: Live) -> int:
    """The generation whose revision the attempt of the status runs; 0 where it is not known.

    The status has the generation that an attempt stands for. That is a later generation where the job has gone back.
    """
    record = record_of(live, int(draft.section("attempt").get("id", 0)), observation.job.identity.uid)
    return 0 if record is None else record.generation


def spec_of(
    live: Live, attempt: int, job: JobIdentity, settings: JobSettings, *, parallelism: int = 0
) -> DesiredJob | None:
    """The spec that an attempt was started with, read by this release, so that an upgrade alone restarts nothing.

    :param parallelism: in place of that of the spec; 0 for that of the spec.
    """
    record = record_of(live, attempt, job.uid)
    if record is None:
        return None
    spec = {**record.spec, "parallelism": parallelism} if parallelism else record.spec
    try:
        return desired_from_resource(
            spec, namespace=job.namespace, name=job.name,
            settings=replace(settings, default_image=record.default_image),
        )  # fmt: skip
    except ConfigurationError:
        return None


def snapshot_of_start(live: Live, desired: DesiredJob, *, stateless: int) -> str:
    """The snapshot that the next attempt begins at; empty for none.

    Called where an attempt is started: no attempt starts from a state that is refused. The driver decides by the same
    rule.

    :param stateless: of :func:`~kafkasparkjob_operator.decisions.revisions.stateless.stateless_of`.
    """
    document = live.state.document
    return due_snapshot(desired.spec.start_snapshot, desired.spec.restore, document, stateless=stateless)


def unneeded_revisions(observation: Observation, live: Live, *, revision: str, code: str) -> tuple[Kept, ...]:
    """Revisions and copies of modules that may be deleted when an attempt starts.

    Those of attempts stay, whose pods may still mount the copies, and the three newest others.

    :param revision: of the attempt that starts. :param code: digest of its modules.
    """
    job = observation.job.identity
    records = [record for record in live.records if record.owner_uid == job.uid]
    needed = {revision, stable_revision(observation.job), *(record.revision for record in records)}
    others = sorted(
        (kept for kept in live.revisions if kept.name not in needed),
        key=lambda kept: (kept.created.timestamp() if kept.created else 0.0, kept.name), reverse=True,
    )  # fmt: skip
    needed |= {kept.name for kept in others[:KEPT]}
    modules = {modules_name(job, digest) for digest in (code, *(record.code for record in records)) if digest}
    modules |= {kept.modules for kept in live.revisions if kept.name in needed}
    old = [kept for kept in live.revisions if kept.name not in needed]
    return (*old, *(kept for kept in live.modules if kept.name not in modules))


def unused_claims(observation: Observation, live: Live) -> tuple[AttemptRecord, ...]:
    """ConfigMaps of attempts without a driver pod: an operator is about to create it, or ended before it could.

    Two operators that act at the same time must not both start an attempt, so a young claim is respected.
    """
    document = live.state.document
    standbys = [pod.attempt for pod in standby_drivers(observation)]
    known = max(current_attempt(observation), document.attempt if document is not None else 0, *standbys)
    uid = observation.job.identity.uid
    return tuple(record for record in live.records if record.owner_uid == uid and record.attempt > known)


def is_unclaimed(draft: StatusDraft, live: Live) -> bool:
    """True where no attempt has claimed the state: none has begun a transaction or written to the volume.

    A state without a document, although a checkpoint was reported, was emptied by somebody.
    """
    return live.state.kind is StateKind.EMPTY and not draft.section("checkpoint").get("id")


def note_lost_attempt(draft: StatusDraft, observation: Observation, live: Live) -> None:
    """Records an attempt whose start is not in the status, and whose driver's pod is gone: how it ended.

    Called where no later attempt settles the transactions that it may have left open. An attempt claims the state
    before it opens a transaction. So the state document names it. Where that is unreadable, every claimed number
    counts.
    """
    document = live.state.document
    if document is not None:
        number = document.attempt
    elif is_unclaimed(draft, live):
        return
    else:
        number = max((claim.attempt for claim in unused_claims(observation, live)), default=0)
    if number <= current_attempt(observation):
        return
    job = observation.job.identity
    record = record_of(live, number, job.uid)
    draft.replace(
        "attempt",
        {
            "id": number,
            "generation": 0 if record is None else record.generation,
            "driverPod": names.driver_pod(job.name, number),
            "outcome": str(ending_of(None, attempt=number, document=document).outcome),
            CODE_DIGEST: "" if record is None else record.code,
            **({REVISION: record.revision} if record is not None and record.revision else {}),
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """What attempts that did not end in order may have left.

    :param possible: False where no transaction of the job can be open.
    :param seconds: time-out of every transaction that may be open; None where it is not known, or there is none.
    """

    possible: bool = True
    seconds: int | None = None


def has_recovered(report: Report | None, attempt: int | None) -> bool:
    """Whether an attempt has settled the transactions of all attempts before it."""
    return report is not None and report.attempt == attempt and report.state is DriverState.RUNNING


def unsettled(draft: StatusDraft, observation: Observation, live: Live, settings: JobSettings) -> Unsettled:
    """Judges which transactions may be open; called where no driver runs (ADR 114).

    They were begun under the specs of earlier attempts, and the resource may have changed since. An attempt claims the
    document before it settles those of earlier attempts, and before it begins its own. So what is open is of the
    document's attempt alone only where that attempt has recovered.
    """
    document = live.state.document
    if is_unclaimed(draft, live) or (document is not None and not document.may_have_transactions):
        return Unsettled(possible=False)
    if document is None or not has_recovered(observation.report, document.attempt):
        return Unsettled()
    began = spec_of(live, document.attempt, observation.job.identity, settings)
    if began is None or not began.spec.sink.transactions_expire:
        return Unsettled()
    return Unsettled(seconds=began.spec.sink.transaction_timeout_seconds)


def attempts_ran(observation: Observation, live: Live) -> bool:
    """True where this incarnation of the resource has had an attempt."""
    uid = observation.job.identity.uid
    return current_attempt(observation) > 0 or any(record.owner_uid == uid for record in live.records)


def claimant_seconds(draft: StatusDraft, observation: Observation, live: Live) -> float:
    """Seconds that another operator may still take to create the driver of the number that it has claimed.

    0 where the clocks of API server and operator differ by more than the limit; the claim is then withdrawn.
    """
    claims = unused_claims(observation, live)
    ages = ((draft.now - claim.created).total_seconds() for claim in claims if claim.created)
    return max((AWAIT_CLAIMANT - age for age in ages if age >= 0), default=0.0)


def first_report_by(draft: StatusDraft, driver: PodView) -> datetime:
    """The deadline of a driver whose container runs.

    The kubelet's clock may be behind, and a standby's container runs long before its activation.
    """
    attempt = parse_time(draft.section("attempt").get("startedAt")) or driver.started_at or draft.now
    return max(driver.started_at or attempt, attempt) + timedelta(seconds=FIRST_REPORT_SECONDS)


def start_reason(draft: StatusDraft, generation: int) -> StartReason:
    """Why an attempt of that generation follows the attempt of the status."""
    attempt = draft.section("attempt")
    if not attempt.get("id"):
        return StartReason.CREATED
    asked = _START_AFTER_STOP.get(attempt.get("stopReason", ""))
    if asked is not None:
        return asked
    return StartReason.SPEC_CHANGED if attempt.get("generation") != generation else StartReason.RESTARTED


def show_start(draft: StatusDraft, attempt: int, reason: StartReason | None) -> None:
    """Ends what the status says about the previous attempt.

    Called when an attempt is started, and when the status has lost its start.

    :param reason: why the attempt was started; None where nothing says so.
    """
    restarts = draft.section("restarts")
    restarts.setdefault("total", 0)
    restarts.pop("nextRetryTime", None)
    if reason is not StartReason.RESTARTED and restarts.get("consecutiveFailures"):
        # The resource has changed: earlier failures say nothing about it.
        restarts["consecutiveFailures"] = 0
    draft.replace("engine", None)
    if draft.has_condition(ConditionType.FINISHED):
        message = f"attempt {attempt} was started"
        draft.condition(ConditionType.FINISHED, ConditionStatus.FALSE, reason="Submitted", message=message)


def show_spec(draft: StatusDraft, desired: DesiredJob) -> None:
    """Writes what the spec of an attempt says about it; called as :func:`show_start`."""
    draft.replace("parallelism", desired.spec.parallelism)
    draft.replace(CLUSTER_ID_KEY, desired.cluster_id or None)
    draft.replace("executors", {"desired": desired.workload.executor_instances, "running": 0})
    draft.section("transactions")["prefix"] = desired.spec.sink.transactional_id_prefix
