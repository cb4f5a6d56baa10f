"""Snapshots that the operator makes of a job: periodic, before an upgrade, and at its deletion (ADR 88).

The time of a periodic snapshot is a multiple of the interval, or of a schedule, and its name has that time. So an
operator that restarts at any step asks for the same snapshot again, which then exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.decisions.attempts import REVISION
from kafkasparkjob_operator.decisions.plan import Action, CreateSnapshot, DeleteSnapshot
from kafkasparkjob_operator.decisions.revisions.refusal import Cause
from kafkasparkjob_operator.decisions.standby import Step
from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.named_snapshots import named_snapshots
from kafkasparkjob_operator.observation.observation import JobResource, Observation
from kafkasparkjob_operator.observation.quota_view import EXCEEDED
from kafkasparkjob_operator.observation.snapshot_view import SnapshotView
from kafkasparkjob_operator.status.phases import SNAPSHOT_SECONDS, Phase
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState, SnapshotTrigger
from kafkasparkjob_operator.status.status import TARGET, StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, SnapshotPolicy, SnapshotsOnDelete
from kafkasparkjob_operator.workload.cron import schedule_of
from sparkapp.model import names

SNAPSHOTS = "snapshots"
"""``status``: the periodic snapshots of the job."""
RETRY_TIME = "retryTime"
"""There: the time of the next request, after a request that was refused. Deletions do not wait for it."""
REFUSED = "Refused"
"""There, as the state of a snapshot that could not be created."""
REFUSED_SECONDS = 300.0
"""Pause after a refused request."""
UPGRADES_KEPT = 5
"""Snapshots before upgrades that are kept, the newest."""
LOOK_AGAIN_SECONDS = 5.0
"""The watch usually brings the snapshot sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """The result of :func:`keep_snapshots`."""

    actions: tuple[Action, ...] = ()
    look_again_after: float | None = None


def keep_snapshots(draft: StatusDraft, observation: Observation, desired: DesiredJob | None) -> Snapshots:
    """Makes the periodic snapshot that is due, and deletes those beyond count and age.

    Called by the state machine at the end of each plan, when the status has the last checkpoint. Without
    ``spec.snapshots`` no periodic snapshot is made or deleted.

    :param desired: None where the resource is invalid: somebody is changing it.
    """
    if desired is None:
        return Snapshots()
    policy = desired.snapshots
    if policy is None:
        draft.replace(SNAPSHOTS, None)
        return Snapshots()
    own, identity = _own(observation, SnapshotTrigger.PERIODIC), observation.job.identity
    section = draft.section(SNAPSHOTS)
    _show(draft, own)
    due, following = due_times(identity, policy, draft.now)
    left = max((following - draft.now).total_seconds(), 0.0)
    needs_room = section.get("state") == REFUSED and EXCEEDED in str(section.get("message"))
    deleted, again = _surplus(own, draft.now, count=policy.count, max_age=policy.max_age_seconds, needs_room=needs_room)
    refused = parse_time(section.get(RETRY_TIME))
    wait = 0.0 if refused is None else (refused - draft.now).total_seconds()
    if 0 < wait <= REFUSED_SECONDS:  # a longer time is a jump of the clock
        return Snapshots(actions=deleted, look_again_after=min(left, again, wait))
    section.pop(RETRY_TIME, None)
    made = () if _is_missed(observation.job, policy, due, draft.now) else _due(draft, identity, policy, due, own)
    return Snapshots(actions=(*deleted, *made), look_again_after=min(left, again))


def snapshot_first(
    draft: StatusDraft, observation: Observation, desired: DesiredJob, step: Step, *, works: bool
) -> Step:
    """The next step before an attempt is stopped for a new revision: under ``upgrade.snapshot`` its snapshot.

    Called by the state machine. A restart, a rescale and a job without a checkpoint need no snapshot.

    :param step: that of the standby driver, which comes first: so the snapshot is young when the attempt stops.
    :param works: the running attempt reads and writes. Otherwise the change follows without a snapshot that fails.
    """
    attempt, refused = draft.section("attempt"), draft.refusal.get("reason") == JobReason.SNAPSHOT_FAILED
    # While the change is refused the target is what runs.
    revision = (draft.refusal if refused else draft.section(TARGET)).get(REVISION)
    if step.preparing or step.refusal is not None or not desired.upgrade.snapshot:
        return step
    if revision in {None, attempt.get(REVISION)} or not draft.section("checkpoint").get("id"):
        return step
    job = observation.job
    name = names.upgrade_snapshot(
        job.identity.name, job.identity.uid, attempt=int(attempt["id"]), generation=job.generation,
        revision=str(revision),
    )  # fmt: skip
    own = _own(observation, SnapshotTrigger.UPGRADE)
    found = next((each for each in own if each.name == name), None)
    if found is not None and found.state == SnapshotState.READY:
        return step
    waited = draft.seconds_in(Phase.SNAPSHOTTING) or 0.0
    failed = found is not None and found.state == SnapshotState.FAILED
    if failed or refused or waited >= SNAPSHOT_SECONDS:
        why = found.message if found is not None and found.message else "it does not exist"
        message = (
            f"snapshot {name} (spec.upgrade.snapshot) is not Ready: {why}; set another spec.restartNonce, or"
            " spec.upgrade.snapshot: false"
        )
        if works:
            return replace(step, refusal=Cause(reason=JobReason.SNAPSHOT_FAILED, message=message, lasts=True))
        draft.event(f"snapshot/{name}", JobReason.SNAPSHOT_FAILED, message, warning=True)
        return step
    actions: tuple[Action, ...] = ()
    if found is None:
        surplus, _ = _surplus(own, draft.now, count=UPGRADES_KEPT, needs_room=True)
        actions = (*surplus, CreateSnapshot(name=name, trigger=SnapshotTrigger.UPGRADE, owned=False))
    return replace(
        step, actions=(*step.actions, *actions), look_again_after=LOOK_AGAIN_SECONDS, preparing=True, snapshot=name,
        deadline=draft.now + timedelta(seconds=SNAPSHOT_SECONDS - waited),
    )  # fmt: skip


def last_snapshot(observation: Observation) -> SnapshotView | None:
    """The snapshot of a job that is being deleted; None where the operator has not made it yet.

    Called by the decisions about a deletion.
    """
    return next(iter(_own(observation, SnapshotTrigger.DELETION)), None)


def _own(observation: Observation, trigger: SnapshotTrigger) -> list[SnapshotView]:
    """The snapshots of this incarnation of the resource with that cause, the newest first."""
    uid, named = observation.job.identity.uid, named_snapshots(observation.job.spec)
    found = (each for each in observation.snapshots if each.job_uid == uid and each.trigger == trigger)
    marked = (replace(each, kept=True) if each.name in named else each for each in found)
    return sorted(marked, key=lambda each: (_created(each), each.name), reverse=True)


def due_times(job: JobIdentity, policy: SnapshotPolicy, now: datetime) -> tuple[datetime, datetime]:
    """The last time at which a snapshot was due, and the next.

    Jobs with one interval are spread over it by their UIDs. A schedule has its own times.
    """
    interval = policy.interval_seconds
    if interval is None:
        schedule = schedule_of(policy.schedule, policy.time_zone)
        return schedule.last(now), schedule.following(now)
    offset = int(names.incarnation(job.uid), 16) % interval
    seconds = int(now.timestamp())
    due = datetime.fromtimestamp(seconds - (seconds - offset) % interval, UTC)
    return due, due + timedelta(seconds=interval)


def _is_missed(job: JobResource, policy: SnapshotPolicy, due: datetime, now: datetime) -> bool:
    """Whether no snapshot is made for the time: it is too long ago, or a schedule had it before the job existed."""
    deadline = policy.starting_deadline_seconds
    if deadline is not None and (now - due).total_seconds() > deadline:
        return True
    return bool(policy.schedule) and job.created is not None and due < job.created


def _due(
    draft: StatusDraft, job: JobIdentity, policy: SnapshotPolicy, due: datetime, own: list[SnapshotView]
) -> tuple[Action, ...]:
    section, checkpoint = draft.section(SNAPSHOTS), draft.section("checkpoint").get("id", 0)
    recorded = parse_time(section.get("dueTime"))  # later than the due time where the schedule has changed
    asked = recorded is not None and due <= recorded <= draft.now and section.get("state") != REFUSED
    held = max((each.checkpoint for each in _ready(own)), default=0) >= checkpoint
    waits = any(each.state not in {SnapshotState.READY, SnapshotState.FAILED} for each in own)
    if asked or held or waits:
        return ()
    name = names.periodic_snapshot(job.name, job.uid, due)
    section.pop("message", None)
    section.update(dueTime=format_time(due), name=name, state=str(SnapshotState.PENDING))
    owned = policy.on_delete is SnapshotsOnDelete.DELETE
    return (CreateSnapshot(name=name, trigger=SnapshotTrigger.PERIODIC, owned=owned),)


def _show(draft: StatusDraft, own: list[SnapshotView]) -> None:
    section, ready = draft.section(SNAPSHOTS), _ready(own)
    for name, value in (
        ("ready", ready[0].name if ready else None), ("checkpoint", ready[0].checkpoint if ready else None),
        ("count", len(ready)),
    ):  # fmt: skip
        section.pop(name, None)
        if value:
            section[name] = value
    last = next((each for each in own if each.name == section.get("name")), None)
    if last is None or not last.state or last.state == section.get("state"):
        return
    section["state"] = last.state
    if last.state == SnapshotState.FAILED:
        section["message"] = last.message
        draft.event(
            f"snapshot/{last.name}", JobReason.SNAPSHOT_FAILED, f"snapshot {last.name}: {last.message}", warning=True
        )
    elif last.state == SnapshotState.READY:
        message = f"snapshot {last.name} holds checkpoint {last.checkpoint}"
        draft.event(f"snapshot/{last.name}", JobReason.SNAPSHOT_MADE, message)


def _surplus(
    own: list[SnapshotView], now: datetime, *, count: int, max_age: int | None = None, needs_room: bool
) -> tuple[tuple[DeleteSnapshot, ...], float]:
    """Deletions, and seconds until the age of a snapshot is the next reason.

    The newest that is Ready is never deleted: the others are deleted because it exists. Failed snapshots hold nothing,
    so all go but the newest of all. What is kept stays in addition: it makes no other go sooner.

    :param needs_room: a quota counts the next before it is Ready, so it gets the place of the oldest, and of failed.
    """
    ready, again = _ready(own), math.inf
    others, count = (own, count - 1) if needs_room else (own[1:], count)
    gone = [_deletion(each) for each in others if each.state == SnapshotState.FAILED and not each.kept]
    for place, each in enumerate(ready[1:], start=1):
        if each.kept:
            continue
        left = math.inf
        if max_age is not None:
            left = max_age - (now.timestamp() - _created(each))
        if place >= count or left <= 0:
            gone.append(_deletion(each, successor=ready[0]))
        else:
            again = min(again, left)
    return tuple(gone), again


def _deletion(snapshot: SnapshotView, *, successor: SnapshotView | None = None) -> DeleteSnapshot:
    name, uid = ("", "") if successor is None else (successor.name, successor.uid)
    return DeleteSnapshot(name=snapshot.name, uid=snapshot.uid, successor=name, successor_uid=uid)


def _ready(own: list[SnapshotView]) -> list[SnapshotView]:
    return [each for each in own if each.state == SnapshotState.READY]


def _created(snapshot: SnapshotView) -> float:
    return 0.0 if snapshot.created is None else snapshot.created.timestamp()
