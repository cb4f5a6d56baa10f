"""Makes snapshots: copies a checkpoint of a job into an immutable ConfigMap that the KafkaSparkSnapshot owns."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkasparkjob_operator import clock
from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.controller.job_objects.pins import is_made_for
from kafkasparkjob_operator.decisions.checks.snapshots import (
    GIVE_UP_SECONDS,
    JobObjects,
    NotPinned,
    Pinned,
    choose,
    imported,
)
from kafkasparkjob_operator.identity import JobKey, owner_uid
from kafkasparkjob_operator.kubernetes.merge_patch import merge_patch
from kafkasparkjob_operator.kubernetes.port import Body, Cluster, ClusterError, NotLeading, ObjectExists, ObjectRefused
from kafkasparkjob_operator.observation.observation import job_resource, report_of
from kafkasparkjob_operator.resources.config_maps import snapshot_config_map
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType, with_condition
from kafkasparkjob_operator.status.snapshot_fields import MAX_TOPICS, SnapshotReason, SnapshotState
from sparkapp.model import commands, names
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import Pin, RetainedCheckpoint, pin_annotation, retained_key
from sparkapp.model.checkpoint.retained_codec import decode_snapshot
from sparkapp.model.errors import CheckpointUnusable

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Pause between two looks at a snapshot that waits."""
RETRY_SECONDS = 10.0
"""The same after a failed request."""


@dataclass(slots=True)
class _Pending:
    """A snapshot without a checkpoint.

    :param uid: of the snapshot. :param seen: monotonic seconds of the first look.
    :param due: of the next look.
    """

    uid: str
    seen: float
    due: float = 0.0
    candidate: CheckpointDocument | None = None


class Snapshots:
    """The controller of snapshots. The handler of their watch calls :meth:`put`, and :meth:`run` does the rest.

    A snapshot that is Ready or Failed costs nothing: it is not remembered.

    :param may_act: False where another process leads. The cluster asks it again before every write.
    :param includes: False for a namespace whose snapshots are ignored.
    :param monotonic: seconds. :param now: the wall clock.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        may_act: Callable[[], bool],
        includes: Callable[[str], bool] = lambda _: True,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._cluster = cluster
        self._may_act, self._includes = may_act, includes
        self._monotonic, self._now = monotonic, now
        self._pending: dict[JobKey, _Pending] = {}
        self._changed = asyncio.Event()

    def put(self, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """Takes what the watch has brought."""
        meta = body["metadata"]
        key = JobKey(meta["namespace"], meta["name"])
        if deleted or _is_settled(body):
            self._pending.pop(key, None)
        elif key not in self._pending or self._pending[key].uid != meta["uid"]:
            self._pending[key] = _Pending(uid=meta["uid"], seen=self._monotonic())
            self._changed.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._changed.clear()
            await self.round()
            pause = LOOK_SECONDS if self._pending else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)

    async def round(self) -> None:
        """Looks once at each snapshot that is due. A failure of one snapshot does not stop the others."""
        if not self._may_act():
            return
        for key, pending in list(self._pending.items()):
            if self._monotonic() < pending.due or not self._includes(key.namespace):
                continue
            try:
                await self._look(key, pending)
            except NotLeading:
                return
            except ClusterError as error:
                pending.due = self._monotonic() + RETRY_SECONDS
                LOG.warning("snapshot %s: %s; retry in %.0f s", key, error.message, RETRY_SECONDS)
            except Exception:
                pending.due = self._monotonic() + RETRY_SECONDS
                LOG.exception("snapshot %s: a look failed unexpectedly; retry in %.0f s", key, RETRY_SECONDS)

    async def _look(self, key: JobKey, pending: _Pending) -> None:
        body = await self._cluster.get(names.SNAPSHOT_KIND, key.namespace, key.name)
        if body is None or body["metadata"]["uid"] != pending.uid or _is_settled(body):
            self._pending.pop(key, None)
            return
        name = str(body["spec"]["jobRef"]["name"])
        text = body["spec"].get("checkpoint")
        found = JobObjects(job=None) if text else await self._job_objects(key.namespace, name)
        job_uid = str((body.get("status") or {}).get("jobUID") or body["spec"]["jobRef"].get("uid") or "")
        waited = max(self._monotonic() - pending.seen, self._seconds_pending(body))
        chosen = (
            imported(text)
            if text
            else choose(found, name=name, job_uid=job_uid, candidate=pending.candidate, waited=waited)
        )
        made = await self._pin(body, name, chosen.checkpoint, waited) if isinstance(chosen, Pinned) else chosen
        if isinstance(made, NotPinned):
            pending.candidate = made.candidate
            uid = "" if found.job is None else found.job.identity.uid
            status = {**_waiting(made), **({"jobUID": job_uid or uid} if job_uid or uid else {})}
        else:
            status = _ready(*made, latest=chosen.latest if isinstance(chosen, Pinned) else 0)
        await self._write(body, status)
        if status["state"] != SnapshotState.PENDING:
            self._pending.pop(key, None)

    def _seconds_pending(self, body: Body) -> float:
        """Since an operator wrote first that it waits, so that restarts of the operator prolong nothing."""
        for each in (body.get("status") or {}).get("conditions") or ():
            since = parse_time(each.get("lastTransitionTime"))
            if each.get("type") == ConditionType.READY and since is not None:
                return abs((self._now() - since).total_seconds())
        return 0.0

    async def _job_objects(self, namespace: str, name: str) -> JobObjects:
        body = await self._cluster.get(names.KIND, namespace, name)
        if body is None:
            return JobObjects(job=None)
        job = job_resource(body)
        # In this order: a report that is read later proves the state that was read before.
        state = await self._cluster.get("ConfigMap", namespace, names.state_config_map(name))
        checkpoints = await self._cluster.get("ConfigMap", namespace, names.checkpoints_config_map(name))
        report = await self._cluster.get("ConfigMap", namespace, names.report_config_map(name))
        return JobObjects(job=job, state=state, checkpoints=checkpoints, report=report_of(report, job.identity))

    async def _pin(
        self, body: Body, job: str, checkpoint: RetainedCheckpoint, waited: float
    ) -> tuple[RetainedCheckpoint, Body] | NotPinned:
        """Creates the ConfigMap. If this operator's predecessor has created it, its content decides."""
        manifest = snapshot_config_map(body, job=job, checkpoint=checkpoint)
        try:
            refusal = await self._pin_state(body, job, checkpoint, manifest["metadata"]["name"])
            if refusal is not None:
                return refusal
            return await self._while_pinned(body, job, checkpoint, await self._cluster.create(manifest))
        except ObjectRefused as error:
            final = waited >= GIVE_UP_SECONDS
            return NotPinned(reason=SnapshotReason.PIN_REFUSED, message=error.message, final=final)
        except ObjectExists:
            meta = manifest["metadata"]
            existing = await self._cluster.get("ConfigMap", meta["namespace"], meta["name"])
            made = None if existing is None else _made_before(existing, body, checkpoint.job_uid)
            if existing is not None and made is not None:
                return await self._while_pinned(body, job, made, existing)
            command = commands.delete("ConfigMap", meta["name"], meta["namespace"])
            message = f"the operator did not create ConfigMap {meta['name']}; delete it: {command}"
            return NotPinned(reason=SnapshotReason.SNAPSHOT_NAME_TAKEN, message=message, final=True)

    async def _pin_state(
        self, body: Body, job: str, checkpoint: RetainedCheckpoint, config_map: str
    ) -> NotPinned | None:
        """Keeps the driver from removing the checkpoint's query state; None where it is kept, or there is none.

        The driver drops the entry of a checkpoint, reads the pins, and removes the state. So a pin that was written
        before the entry was seen here is seen by the driver.

        :param config_map: of the snapshot. If it exists, this operator's predecessor has pinned what it names.
        """
        namespace, name = body["metadata"]["namespace"], names.checkpoints_config_map(job)
        if not checkpoint.engine or body["spec"].get("checkpoint"):
            return None  # nobody removes the state of an exported checkpoint
        if await self._cluster.get("ConfigMap", namespace, config_map) is not None:
            return None
        kept = await self._cluster.get("ConfigMap", namespace, name)
        if kept is not None and owner_uid(kept) == checkpoint.job_uid:
            pin = Pin(checkpoint.checkpoint_id, body["metadata"]["name"])
            kept = await self._cluster.annotate_config_map(
                namespace, name, pin_annotation(body["metadata"]["uid"], pin), uid=kept["metadata"]["uid"]
            )
            if kept is not None and retained_key(checkpoint.checkpoint_id) in (kept.get("data") or {}):
                return None
        return _dropped(checkpoint)

    async def _while_pinned(
        self, body: Body, job: str, checkpoint: RetainedCheckpoint, config_map: Body
    ) -> tuple[RetainedCheckpoint, Body] | NotPinned:
        """The checkpoint and its ConfigMap, if its state is pinned still; otherwise the ConfigMap is deleted.

        Somebody may have deleted the retained checkpoints behind the pin. They are created with the pins of all
        ConfigMaps of snapshots (ADR 115), so from this look on the pin stays.
        """
        if not checkpoint.engine or body["spec"].get("checkpoint"):
            return checkpoint, config_map
        meta = body["metadata"]
        kept = await self._cluster.get("ConfigMap", meta["namespace"], names.checkpoints_config_map(job))
        annotations = {} if kept is None else kept["metadata"].get("annotations") or {}
        pin = pin_annotation(meta["uid"], Pin(checkpoint.checkpoint_id, meta["name"]))
        if pin.items() <= annotations.items():
            return checkpoint, config_map
        made = config_map["metadata"]
        await self._cluster.delete("ConfigMap", made["namespace"], made["name"], uid=made["uid"])
        return _dropped(checkpoint)

    async def _write(self, body: Body, status: Mapping[str, Any]) -> None:
        meta, before = body["metadata"], body.get("status") or {}
        conditions = with_condition(
            before.get("conditions") or (),
            ConditionType.READY,
            ConditionStatus.TRUE if status["state"] == SnapshotState.READY else ConditionStatus.FALSE,
            reason=status["reason"],
            message=status["message"],
            generation=int(meta.get("generation", 1)),
            now=self._now(),
        )
        patch = merge_patch(before, {**before, **status, "conditions": conditions})
        if patch:
            key = JobKey(meta["namespace"], meta["name"])
            version = meta["resourceVersion"]
            await self._cluster.patch_status(key, patch, resource_version=version, kind=names.SNAPSHOT_KIND)


def _is_settled(body: Mapping[str, Any]) -> bool:
    state = (body.get("status") or {}).get("state")
    return state in {SnapshotState.READY, SnapshotState.FAILED} or "deletionTimestamp" in body["metadata"]


def _made_before(existing: Body, snapshot: Body, job_uid: str) -> RetainedCheckpoint | None:
    """The checkpoint of a ConfigMap that the operator has created for this snapshot; None for any other."""
    if not is_made_for(existing, snapshot):
        return None
    try:
        return decode_snapshot(str((existing.get("data") or {}).get(names.SNAPSHOT_KEY, "")), job_uid=job_uid)
    except CheckpointUnusable:
        return None


def _dropped(checkpoint: RetainedCheckpoint) -> NotPinned:
    message = f"checkpoint {checkpoint.checkpoint_id} was dropped while its state was pinned"
    return NotPinned(reason=SnapshotReason.STATE_NOT_RETAINED, message=message)


def _waiting(chosen: NotPinned) -> dict[str, Any]:
    state = SnapshotState.FAILED if chosen.final else SnapshotState.PENDING
    message = f"{chosen.message}. {chosen.reason.remedy}" if chosen.final else chosen.message
    return {"state": str(state), "reason": str(chosen.reason), "message": message}


def _ready(checkpoint: RetainedCheckpoint, config_map: Body, *, latest: int) -> dict[str, Any]:
    """
    :param latest: number in the job's document.
    """
    sizes = Counter(partition.topic for partition in checkpoint.offsets)
    topics = [{"topic": topic, "partitions": size} for topic, size in sorted(sizes.items())]
    meta = config_map["metadata"]
    gap = f". The job was at checkpoint {latest}: a job that begins here may write again what it has written since"
    folder = f"{checkpoint.job_uid}/{names.retained_state(checkpoint.checkpoint_id)}" if checkpoint.engine else ""
    return {
        "state": str(SnapshotState.READY),
        "reason": str(SnapshotReason.PINNED),
        "message": (
            f"checkpoint {checkpoint.checkpoint_id} of {checkpoint.created_at}: offsets of"
            f" {len(checkpoint.offsets)} partition(s) of {len(topics)} topic(s)"
            + (f", and state in folder {folder} of the job's volume or bucket" if folder else "")
            + (gap if latest > checkpoint.checkpoint_id else "")
        ),
        "jobUID": checkpoint.job_uid,
        "configMap": {"name": meta["name"], "uid": meta["uid"]},
        "checkpoint": {
            "id": checkpoint.checkpoint_id,
            "time": checkpoint.created_at,
            "attempt": checkpoint.attempt,
            **({"clusterId": checkpoint.cluster_id} if checkpoint.cluster_id else {}),
            "partitions": len(checkpoint.offsets),
            **({"stateFolder": folder} if folder else {}),
            "topics": topics[:MAX_TOPICS],
            "recordsIn": checkpoint.records_in,
            "recordsOut": checkpoint.records_out,
        },
    }
