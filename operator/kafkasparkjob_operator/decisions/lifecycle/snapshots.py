"""Periodic snapshots of a job (``spec.snapshots``): when the next is made, and which are deleted.

The time of a snapshot is a multiple of the interval, and its name has that time. So an operator that restarts at any
step asks for the same snapshot again, which then exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.decisions.plan import Action, CreateSnapshot, DeleteSnapshot
from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.observation import Observation
from kafkasparkjob_operator.observation.snapshot_view import SnapshotView
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState, SnapshotTrigger
from kafkasparkjob_operator.status.status import StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, SnapshotPolicy, SnapshotsOnDelete
from sparkapp.model import names

SNAPSHOTS = "snapshots"
"""``status``: the periodic snapshots of the job."""
RETRY_TIME = "retryTime"
"""There: the time of the next request, after a request that was refused."""
REFUSED = "Refused"
"""There, as the state of a snapshot that could not be created."""
REFUSED_SECONDS = 300.0
"""Pause after a refused request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """The result of :func:`keep_snapshots`."""

    actions: tuple[Action, ...] = ()
    look_again_after: float | None = None


def keep_snapshots(draft: StatusDraft, observation: Observation, desired: DesiredJob | None) -> Snapshots:
    """Makes the snapshot that is due, and deletes those beyond count and age.

    Called by the state machine at the end of each plan, when the status has the last checkpoint. Without
    ``spec.snapshots`` nothing is made or deleted.

    :param desired: None where the resource is invalid: somebody is changing it.
    """
    policy = None if desired is None else desired.snapshots
    if policy is None:
        if desired is not None:
            draft.replace(SNAPSHOTS, None)
        return Snapshots()
    identity = observation.job.identity
    own = sorted(
        (each for each in observation.snapshots if each.job_uid == identity.uid and _is_periodic(each)),
        key=lambda each: (_created(each), each.name), reverse=True,
    )  # fmt: skip
    section = draft.section(SNAPSHOTS)
    _show(draft, own)
    due = due_time(identity, policy, draft.now)
    following = due + timedelta(seconds=policy.interval_seconds)
    left = max((following - draft.now).total_seconds(), 0.0)
    refused = parse_time(section.get(RETRY_TIME))
    wait = 0.0 if refused is None else (refused - draft.now).total_seconds()
    if 0 < wait <= REFUSED_SECONDS:  # a longer time is a jump of the clock
        return Snapshots(look_again_after=min(left, wait))
    section.pop(RETRY_TIME, None)
    made = _due(draft, identity, policy, due, own)
    deleted, again = _surplus(policy, own, draft.now)
    return Snapshots(actions=(*made, *deleted), look_again_after=min(left, again))


def due_time(job: JobIdentity, policy: SnapshotPolicy, now: datetime) -> datetime:
    """The last time at which a snapshot was due. Jobs with one interval are spread over it by their UIDs."""
    interval = policy.interval_seconds
    offset = int(names.incarnation(job.uid), 16) % interval
    seconds = int(now.timestamp())
    return datetime.fromtimestamp(seconds - (seconds - offset) % interval, UTC)


def _due(
    draft: StatusDraft, job: JobIdentity, policy: SnapshotPolicy, due: datetime, own: list[SnapshotView]
) -> tuple[Action, ...]:
    section, checkpoint = draft.section(SNAPSHOTS), draft.section("checkpoint").get("id", 0)
    asked = section.get("dueTime") == format_time(due) and section.get("state") != REFUSED
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
    policy: SnapshotPolicy, own: list[SnapshotView], now: datetime
) -> tuple[tuple[DeleteSnapshot, ...], float]:
    """Deletions, and seconds until the age of a snapshot is the next reason.

    The newest that is Ready is never deleted: the others are deleted because it exists. Failed snapshots hold nothing,
    so all go but the newest of all.
    """
    ready, again = _ready(own), float(policy.interval_seconds)
    gone = [_deletion(each) for each in own[1:] if each.state == SnapshotState.FAILED]
    for place, each in enumerate(ready[1:], start=1):
        left = math.inf
        if policy.max_age_seconds is not None:
            left = policy.max_age_seconds - (now.timestamp() - _created(each))
        if place >= policy.count or left <= 0:
            gone.append(_deletion(each, successor=ready[0]))
        else:
            again = min(again, left)
    return tuple(gone), again


def _deletion(snapshot: SnapshotView, *, successor: SnapshotView | None = None) -> DeleteSnapshot:
    name, uid = ("", "") if successor is None else (successor.name, successor.uid)
    return DeleteSnapshot(name=snapshot.name, uid=snapshot.uid, successor=name, successor_uid=uid)


def _ready(own: list[SnapshotView]) -> list[SnapshotView]:
    return [each for each in own if each.state == SnapshotState.READY]


def _is_periodic(snapshot: SnapshotView) -> bool:
    return snapshot.trigger == SnapshotTrigger.PERIODIC


def _created(snapshot: SnapshotView) -> float:
    return 0.0 if snapshot.created is None else snapshot.created.timestamp()
