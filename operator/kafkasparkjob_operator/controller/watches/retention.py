"""Says of each snapshot that is Ready whether Kafka still has the records behind it (ADR 89)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafkasparkjob_operator import clock
from kafkasparkjob_operator.decisions.checks.snapshots import Retained, judge_retention
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.merge_patch import merge_patch
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError, NotLeading
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType, with_condition
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import decode_snapshot
from sparkapp.model.errors import CheckpointUnusable
from sparkapp.model.report import MAX_BEGINNINGS, Report

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
"""Pause between two comparisons. They cost no request while nothing changes."""


@dataclass(slots=True)
class _Held:
    """A snapshot that is Ready.

    :param job: of the snapshot, with ``job_uid``. :param config_map: name and UID.
    :param known: status, reason and message of its condition.
    :param is_read: ``checkpoint`` is that of the ConfigMap, or None where it cannot be compared.
    """

    uid: str
    job: JobKey
    job_uid: str
    config_map: tuple[str, str]
    known: tuple[str, str, str]
    is_read: bool = False
    checkpoint: RetainedCheckpoint | None = None


class Retention:
    """The condition OffsetsRetained. The handler of the snapshots' watch calls :meth:`put`, and :meth:`run` the rest.

    A snapshot costs one request for its offsets, and its memory has a bound: at most :data:`MAX_BEGINNINGS` offsets.

    :param report: of the driver of a job, by the job's UID; None where none has reported lately.
    :param may_act: False where another process leads. :param includes: False for a namespace that is ignored.
    :param now: the wall clock.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        report: Callable[[JobKey, str], Report | None],
        may_act: Callable[[], bool],
        includes: Callable[[str], bool] = lambda _: True,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._cluster, self._report = cluster, report
        self._may_act, self._includes, self._now = may_act, includes, now
        self._held: dict[JobKey, _Held] = {}

    def put(self, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """Takes what the watch has brought."""
        meta, status = body["metadata"], body.get("status") or {}
        key = JobKey(meta["namespace"], meta["name"])
        if deleted or status.get("state") != SnapshotState.READY or "deletionTimestamp" in meta:
            self._held.pop(key, None)
            return
        held = self._held.get(key)
        if held is not None and held.uid == meta["uid"]:
            held.known = _condition(status)
            return
        job, kept = str(body["spec"]["jobRef"]["name"]), status.get("configMap") or {}
        self._held[key] = _Held(
            uid=meta["uid"], job=JobKey(key.namespace, job), job_uid=str(status.get("jobUID", "")),
            config_map=(str(kept.get("name", "")), str(kept.get("uid", ""))), known=_condition(status),
        )  # fmt: skip

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(LOOK_SECONDS)

    async def round(self) -> None:
        """Judges each snapshot once. A failure of one snapshot does not stop the others."""
        for key, held in list(self._held.items()):
            if not self._may_act():
                return
            if not self._includes(key.namespace) or held.known[0] == ConditionStatus.FALSE:
                continue  # what is deleted never comes back
            try:
                await self._judge(key, held)
            except NotLeading:
                return
            except ClusterError as error:
                LOG.warning("snapshot %s: %s; retry in %.0f s", key, error.message, LOOK_SECONDS)

    async def _judge(self, key: JobKey, held: _Held) -> None:
        if not held.is_read:
            held.checkpoint, held.is_read = await self._checkpoint(key.namespace, held), True
        found = judge_retention(held.checkpoint, self._report(held.job, held.job_uid))
        if (found.status, found.reason, found.message) == held.known:
            return
        body = await self._cluster.get(names.SNAPSHOT_KIND, key.namespace, key.name)
        if body is None or body["metadata"]["uid"] != held.uid:
            self._held.pop(key, None)
            return
        await self._write(key, body, found)
        held.known = (str(found.status), str(found.reason), found.message)

    async def _checkpoint(self, namespace: str, held: _Held) -> RetainedCheckpoint | None:
        name, uid = held.config_map
        body = await self._cluster.get("ConfigMap", namespace, name) if name else None
        if body is None or body["metadata"]["uid"] != uid:
            return None
        try:
            found = decode_snapshot(str((body.get("data") or {}).get(names.SNAPSHOT_KEY, "")), job_uid=held.job_uid)
        except CheckpointUnusable:
            return None
        return found if len(found.offsets) <= MAX_BEGINNINGS else None

    async def _write(self, key: JobKey, body: Mapping[str, Any], found: Retained) -> None:
        meta, before = body["metadata"], body.get("status") or {}
        conditions = with_condition(
            before.get("conditions") or (), ConditionType.OFFSETS_RETAINED, found.status, reason=found.reason,
            message=found.message, generation=int(meta.get("generation", 1)), now=self._now(),
        )  # fmt: skip
        patch = merge_patch(before, {**before, "conditions": conditions})
        version = meta["resourceVersion"]
        await self._cluster.patch_status(key, patch, resource_version=version, kind=names.SNAPSHOT_KIND)


def _condition(status: Mapping[str, Any]) -> tuple[str, str, str]:
    """Status, reason and message; empty where there is none yet."""
    for each in status.get("conditions") or ():
        if each.get("type") == ConditionType.OFFSETS_RETAINED:
            return str(each.get("status", "")), str(each.get("reason", "")), str(each.get("message", ""))
    return "", "", ""
