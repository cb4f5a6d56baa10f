"""Looks at every job now and then, whatever the watches say: a lost event is healed, a lost job is found."""

from __future__ import annotations

import asyncio
import logging

from kafkasparkjob_operator.cache import Cache
from kafkasparkjob_operator.cluster import Cluster, ClusterError
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.watch_monitor import WatchMonitor
from kafkasparkjob_operator.work_queue import WorkQueue

LOG = logging.getLogger(__name__)


class Sweep:
    """Lists all jobs now and then.

    :param namespaces: those that are watched; empty means all.
    """

    def __init__(
        self, cluster: Cluster, cache: Cache, queue: WorkQueue, monitor: WatchMonitor, namespaces: tuple[str, ...]
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._monitor = monitor
        self._namespaces = namespaces

    async def run(self, seconds: float) -> None:
        """Sweeps until cancelled, with this pause."""
        while True:
            await asyncio.sleep(seconds)
            await self.sweep(seconds / 2)

    async def sweep(self, spread: float) -> None:
        """Queues every job once, spread over some seconds, so that the API server hardly notices."""
        seen: set[JobKey] = set()
        for namespace in self._namespaces or (None,):
            listed = await self._list(namespace)
            if listed is None:
                continue
            seen |= listed
            for key in set(self._cache.keys) - listed:
                if namespace in {None, key.namespace}:
                    self._queue.add(key)
        for number, key in enumerate(sorted(seen)):
            self._queue.add_after(key, spread * (number + 1) / (len(seen) + 1))

    async def _list(self, namespace: str | None) -> set[JobKey] | None:
        """The jobs of a namespace, or of all; None where they cannot be listed, which the others do not suffer from."""
        try:
            bodies = await self._cluster.list_jobs(namespace)
        except ClusterError as error:
            LOG.warning("the jobs of %s could not be listed: %s", namespace or "all namespaces", error.message)
            return None
        keys: set[JobKey] = set()
        for body in bodies:
            meta = body["metadata"]
            key = JobKey(meta["namespace"], meta["name"])
            keys.add(key)
            self._monitor.looked(key, str(meta.get("resourceVersion", "")))
            if not self._cache.version(key):
                self._cache.put_job(body)
        return keys
