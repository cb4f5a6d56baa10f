"""Polls the ConfigMaps of the users' modules, which have no label of the operator, so that no watch brings them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.decisions.checks.code import config_map_of
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError
from kafkasparkjob_operator.observation.observation import JobResource

LOG = logging.getLogger(__name__)

SECONDS = 30.0
"""Pause between two rounds; each round is a GET for each job that names a ConfigMap."""


async def digest_of(cluster: Cluster, job: JobResource) -> str:
    """A digest of the modules; empty where the ConfigMap does not exist, or the job names none.

    :raises ClusterError: the ConfigMap cannot be read.
    """
    name = config_map_of(job.spec)
    body = await cluster.get("ConfigMap", job.identity.namespace, name) if name else None
    if body is None:
        return ""
    content = json.dumps([body.get("data") or {}, body.get("binaryData") or {}], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


class CodeWatch:
    """Reads the modules of all jobs and queues the jobs whose modules have changed."""

    def __init__(self, cluster: Cluster, cache: Cache, queue: WorkQueue) -> None:
        self._cluster = cluster
        self._cache = cache
        self._queue = queue

    async def run(self, seconds: float = SECONDS) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            for key in self._cache.keys:
                await self.look(key)

    async def look(self, key: JobKey) -> None:
        """Reads the modules of a job; called by :meth:`run`."""
        job = self._cache.job(key)
        if job is None or not config_map_of(job.spec):
            return
        try:
            digest = await digest_of(self._cluster, job)
        except ClusterError as error:
            LOG.warning("%s: reading the ConfigMap of its modules failed: %s", key, error.message)
            return
        if self._cache.put_code(key, digest):
            self._queue.add(key)
