"""Looks for changes of the ConfigMaps of the users' modules, which have no label of the operator.

A watch without a label would bring the contents of every ConfigMap of the namespaces to the operator (ADR 33).
"""

from __future__ import annotations

import asyncio
import logging

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.decisions.checks.code import config_map_of
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.resources.revisions import digest_of_content

LOG = logging.getLogger(__name__)

SECONDS = 1.0
"""Pause between two rounds."""
MOST_LISTS = 10
"""Lists a second. With more than ten namespaces the pause grows."""


async def digest_of(cluster: Cluster, job: JobResource) -> str:
    """A digest of the modules; empty where the ConfigMap does not exist, or the job names none.

    :raises ClusterError: the ConfigMap cannot be read.
    """
    name = config_map_of(job.spec)
    body = await cluster.get("ConfigMap", job.identity.namespace, name) if name else None
    if body is None:
        return ""
    return digest_of_content(body)


class CodeWatch:
    """Finds the jobs whose modules have changed, and queues them.

    A round is a list of names and versions for each namespace with such jobs. Contents are read where a version is new.
    """

    def __init__(self, cluster: Cluster, cache: Cache, queue: WorkQueue) -> None:
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._seen: dict[JobKey, tuple[str, str]] = {}
        """Name and version of the ConfigMap whose content was read last."""

    async def run(self, seconds: float = SECONDS) -> None:
        """Runs until cancelled."""
        while True:
            places = await self.look()
            await asyncio.sleep(max(seconds, places / MOST_LISTS))

    async def look(self) -> int:
        """A round; called by :meth:`run`. Returns the number of lists."""
        jobs: dict[str, list[tuple[JobKey, str]]] = {}
        for key, name in self._cache.modules:
            jobs.setdefault(key.namespace, []).append((key, name))
        known = {key for namespace in jobs.values() for key, _ in namespace}
        self._seen = {key: seen for key, seen in self._seen.items() if key in known}
        for namespace, found in jobs.items():
            try:
                versions = await self._cluster.list_versions(namespace)
            except ClusterError as error:
                LOG.warning("%s: the list of its ConfigMaps failed: %s", namespace, error.message)
                continue
            for key, name in found:
                await self._compare(key, name, versions.get(name, ""))
        return len(jobs)

    async def _compare(self, key: JobKey, name: str, version: str) -> None:
        job = self._cache.job(key)
        if job is None or self._seen.get(key) == (name, version):
            return
        try:
            digest = await digest_of(self._cluster, job)
        except ClusterError as error:
            LOG.warning("%s: reading the ConfigMap of its modules failed: %s", key, error.message)
            return
        self._seen[key] = (name, version)
        if self._cache.put_code(key, digest):
            self._queue.add(key)
