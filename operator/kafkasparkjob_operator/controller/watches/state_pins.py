"""Pins of snapshots on the state of jobs: removed with their snapshot, and put back where they are lost (ADR 94).

A pin is an annotation of the ConfigMap of a job's retained checkpoints, which the driver reads before it removes state.
The controller of snapshots writes it. A deletion of a snapshot that this operator did not see is found by a look.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.identity import JobKey, owner_uid
from kafkasparkjob_operator.kubernetes.port import Body, Cluster, ClusterError, NotLeading
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import Pin, pin_annotation, pins_of
from sparkapp.model.errors import CheckpointUnusable

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 3600.0
"""Between two looks at the pins of a job."""
ROUND_SECONDS = 60.0
"""Pause between two rounds without a deletion."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A snapshot that is Ready and has state.

    :param job: of the snapshot, with ``job_uid``.
    """

    uid: str
    job: JobKey
    job_uid: str
    checkpoint_id: int


class StatePins:
    """Compares pins with snapshots. The handler of the snapshots' watch calls :meth:`put`, and :meth:`run` the rest.

    :param jobs: the jobs that have a place for state.
    :param may_act: False where another process leads. :param includes: False for a namespace that is ignored.
    :param monotonic: seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        jobs: Callable[[], Collection[JobKey]],
        may_act: Callable[[], bool],
        includes: Callable[[str], bool] = lambda _: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._jobs = cluster, jobs
        self._may_act, self._includes, self._monotonic = may_act, includes, monotonic
        self._held: dict[JobKey, _Held] = {}
        self._looked: dict[JobKey, float] = {}
        self._changed = asyncio.Event()

    def put(self, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """Takes what the watch has brought."""
        meta = body["metadata"]
        key = JobKey(meta["namespace"], meta["name"])
        if deleted:
            self._forget_look(self._held.pop(key, None), key, body.get("spec"))
            return
        spec, status = body["spec"], body.get("status") or {}
        job, checkpoint = JobKey(key.namespace, str(spec["jobRef"]["name"])), status.get("checkpoint") or {}
        if status.get("state") == SnapshotState.READY and checkpoint.get("stateFolder") and not spec.get("checkpoint"):
            self._held[key] = _Held(meta["uid"], job, str(status.get("jobUID", "")), int(checkpoint["id"]))

    def _forget_look(self, held: _Held | None, snapshot: JobKey, spec: Mapping[str, Any] | None) -> None:
        """A list tells a deletion by its lack. The spec that names the job is unknown then."""
        if spec is not None:
            jobs = [JobKey(snapshot.namespace, str(spec["jobRef"]["name"]))]
        elif held is not None:
            jobs = [held.job]
        else:
            jobs = [job for job in self._looked if job.namespace == snapshot.namespace]
        for job in jobs:
            self._looked.pop(job, None)
        self._changed.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._changed.clear()
            await self.round()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), ROUND_SECONDS)

    async def round(self) -> None:
        """Looks at each job that is due. A failure of one job does not stop the others."""
        jobs = set(self._jobs())
        self._looked = {key: seconds for key, seconds in self._looked.items() if key in jobs}
        for job in sorted(jobs):
            if not self._may_act():
                return
            if not self._includes(job.namespace) or self._monotonic() - self._looked.get(job, -math.inf) < LOOK_SECONDS:
                continue
            try:
                await self._compare(job)
            except NotLeading:
                return
            except (ClusterError, CheckpointUnusable) as error:
                LOG.warning("pins of job %s: %s; retry in %.0f s", job, error.message, ROUND_SECONDS)
            else:
                self._looked[job] = self._monotonic()

    async def _compare(self, job: JobKey) -> None:
        name = names.checkpoints_config_map(job.name)
        body = await self._cluster.get("ConfigMap", job.namespace, name)
        if body is None:
            return
        pins, changes = pins_of(body["metadata"].get("annotations")), dict[str, str | None]()
        for uid, pin in pins.items():
            if not _keeps(await self._cluster.get(names.SNAPSHOT_KIND, job.namespace, pin.snapshot), uid):
                changes.update(dict.fromkeys(pin_annotation(uid, pin)))
        for key, held in self._held.items():
            if held.job == job and held.job_uid == owner_uid(body) and held.uid not in pins:
                changes.update(pin_annotation(held.uid, Pin(held.checkpoint_id, key.name)))
        if changes:
            await self._cluster.annotate_config_map(job.namespace, name, changes, uid=body["metadata"]["uid"])


def _keeps(snapshot: Body | None, uid: str) -> bool:
    """Whether the snapshot of a pin exists, and may need what it keeps."""
    if snapshot is None or snapshot["metadata"]["uid"] != uid:
        return False
    return (snapshot.get("status") or {}).get("state") != SnapshotState.FAILED
