"""Pins of snapshots on the state of jobs: removed with their snapshot, and put back where they are lost (ADR 94).

The controller of snapshots writes a pin first. A deletion of a snapshot that this operator did not see is found by a
look.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafkasparkjob_operator.controller.job_objects.pins import needed_pins
from kafkasparkjob_operator.identity import JobIdentity, JobKey, owner_uid
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError, NotLeading
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import pin_annotation, pins_of
from sparkapp.model.errors import CheckpointUnusable

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 3600.0
"""Between two looks at the pins of a job."""
ROUND_SECONDS = 60.0
"""Pause between two rounds without a deletion."""


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
        self._job_of: dict[JobKey, JobKey] = {}
        self._looked: dict[JobKey, float] = {}
        self._changed = asyncio.Event()

    def put(self, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """Takes what the watch has brought. Of a deletion that a list tells by its lack it has the name alone."""
        meta = body["metadata"]
        key = JobKey(meta["namespace"], meta["name"])
        if not deleted:
            self._job_of[key] = JobKey(key.namespace, str(body["spec"]["jobRef"]["name"]))
        elif key in self._job_of:
            self._looked.pop(self._job_of.pop(key), None)
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
            self._looked[job] = self._monotonic()  # before the look, which a deletion may make late
            try:
                await self._compare(job)
            except (ClusterError, CheckpointUnusable) as error:
                self._looked.pop(job, None)
                if isinstance(error, NotLeading):
                    return
                LOG.warning("pins of job %s: %s; retry in %.0f s", job, error.message, ROUND_SECONDS)

    async def _compare(self, job: JobKey) -> None:
        name = names.checkpoints_config_map(job.name)
        body = await self._cluster.get("ConfigMap", job.namespace, name)
        if body is None:
            return
        pins = pins_of(body["metadata"].get("annotations"))
        needed = await needed_pins(self._cluster, JobIdentity(*job, owner_uid(body)), pins)
        changes: dict[str, str | None] = {}
        for uid in pins.keys() - needed.keys():
            changes |= dict.fromkeys(pin_annotation(uid, pins[uid]))
        for uid in needed.keys() - pins.keys():
            changes |= pin_annotation(uid, needed[uid])
        if changes:
            await self._cluster.annotate_config_map(job.namespace, name, changes, uid=body["metadata"]["uid"])
