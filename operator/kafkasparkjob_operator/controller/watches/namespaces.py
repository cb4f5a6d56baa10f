"""Watches the namespaces that a label selector selects; the operator ignores the jobs of other namespaces."""

from __future__ import annotations

import asyncio
import logging

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError

LOG = logging.getLogger(__name__)

SECONDS = 10.0
"""Pause between two lists of the namespaces."""


class SelectedNamespaces:
    """Lists the namespaces with the selector's labels.

    :param selector: a label selector; empty selects every namespace that is watched.
    """

    def __init__(self, cluster: Cluster, cache: Cache, queue: WorkQueue, selector: str) -> None:
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._selector = selector
        self._selected: frozenset[str] = frozenset()

    def includes(self, namespace: str) -> bool:
        """True where the operator acts in the namespace."""
        return not self._selector or namespace in self._selected

    async def run(self, seconds: float = SECONDS) -> None:
        """Runs until cancelled."""
        while True:
            try:
                await self.look()
            except ClusterError as error:
                LOG.warning("listing the namespaces failed: %s", error.message)
            await asyncio.sleep(seconds)

    async def look(self) -> None:
        """Lists once: takes the jobs of added namespaces, and forgets those of others. Called by :meth:`run`.

        :raises ClusterError: a list failed; the namespaces that are left are added by a later look.
        """
        if not self._selector:
            return
        found = frozenset(await self._cluster.list_namespaces(self._selector))
        added = found - self._selected
        self._selected &= found
        for key in self._cache.keys:
            if key.namespace not in found:
                self._cache.forget(key)
                self._queue.forget(key)
        errors = []
        for namespace in sorted(added):
            self._selected |= {namespace}  # before the list, or an event behind it would be ignored
            try:
                await self._take(namespace)
            except ClusterError as error:
                self._selected -= {namespace}
                errors.append(error)
        if errors:
            raise errors[0]

    async def _take(self, namespace: str) -> None:
        async for page in self._cluster.list_jobs(namespace):
            for body in page:
                self._cache.put_job(body)
                self._queue.add(JobKey(namespace, body["metadata"]["name"]))
