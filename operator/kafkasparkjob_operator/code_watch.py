"""Reads the users' modules: their ConfigMaps carry no label of the operator's, so that no watch brings them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging

from kafkasparkjob_operator.cache import Cache
from kafkasparkjob_operator.cluster import Cluster, ClusterError
from kafkasparkjob_operator.code import config_map_of
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation import JobResource
from kafkasparkjob_operator.work_queue import WorkQueue

LOG = logging.getLogger(__name__)

SECONDS = 30.0
"""Between two looks: one GET for each job that names a ConfigMap."""


async def digest_of(cluster: Cluster, job: JobResource) -> str:
    """A digest of the modules; empty where there is no such ConfigMap, or the job names none.

    :raises ClusterError: it cannot be read.
    """
    name = config_map_of(job)
    body = await cluster.get("ConfigMap", job.identity.namespace, name) if name else None
    if body is None:
        return ""
    content = json.dumps([body.get("data") or {}, body.get("binaryData") or {}], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


class CodeWatch:
    """Asks for the digests of all jobs' modules and queues the jobs whose modules have changed."""

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
        """One job; called by :meth:`run`."""
        job = self._cache.job(key)
        if job is None or not config_map_of(job):
            return
        try:
            digest = await digest_of(self._cluster, job)
        except ClusterError as error:
            LOG.warning("%s: the ConfigMap of its code cannot be read: %s", key, error.message)
            return
        if self._cache.put_code(key, digest):
            self._queue.add(key)
