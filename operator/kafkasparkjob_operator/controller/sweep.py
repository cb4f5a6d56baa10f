"""Reconciles every job periodically, whatever the watches say, so that a lost event does no harm."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError

LOG = logging.getLogger(__name__)


class Sweep:
    """Lists all jobs periodically.

    :param namespaces: the watched namespaces; empty means all.
    :param includes: False for a namespace whose jobs are ignored.
    """

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        queue: WorkQueue,
        namespaces: tuple[str, ...],
        includes: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._includes = includes
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._namespaces = namespaces

    async def run(self, seconds: float) -> None:
        """Sweeps until cancelled, with this pause."""
        while True:
            await asyncio.sleep(seconds)
            await self.sweep(seconds / 2)

    async def sweep(self, spread: float) -> None:
        """Queues every job once, spread over some seconds to limit the load of the API server."""
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
        """The jobs of a namespace, or of all; None where the list failed: other namespaces are still swept."""
        keys: set[JobKey] = set()
        try:
            async for page in self._cluster.list_jobs(namespace):
                for body in page:
                    meta = body["metadata"]
                    key = JobKey(meta["namespace"], meta["name"])
                    if not self._includes(key.namespace):
                        continue
                    keys.add(key)
                    if not self._cache.version(key):
                        self._cache.put_job(body)
        except ClusterError as error:
            LOG.warning("listing the jobs of %s failed: %s", namespace or "all namespaces", error.message)
            return None
        return keys
