"""Reconciles every job periodically, whatever the watches say, so that a lost event does no harm (ADR 96)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.watches.versions import KINDS, Proof, Versions, is_proven
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError
from kafkasparkjob_operator.status.status import JobState

LOG = logging.getLogger(__name__)

_RESTING = frozenset({JobState.SUSPENDED, JobState.FINISHED, JobState.FAILED})
"""States of a job without a driver. What ends them changes the resource, or is a time that the reconciler awaits."""


class _Listed(NamedTuple):
    """What lists say of a job.

    :param behind: the cache has another version of the resource than the list.
    :param rests: it has no driver, and gets none unasked.
    """

    behind: bool
    rests: bool


class Sweep:
    """Lists all jobs periodically, and the versions of their objects.

    :param namespaces: the watched namespaces; empty means all.
    :param includes: False for a namespace whose jobs are ignored.
    :param looked_at: monotonic seconds of the last live look at a job.
    :param may_act: False where another process leads; versions are of no use then.
    """

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        queue: WorkQueue,
        namespaces: tuple[str, ...],
        includes: Callable[[str], bool] = lambda _: True,
        *,
        looked_at: Callable[[JobKey], float],
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._includes = includes
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._namespaces = namespaces
        self._looked_at, self._may_act = looked_at, may_act
        self._proofs: dict[JobKey, Proof] = {}
        self._leads = asyncio.Event()

    def begin(self) -> None:
        """Leadership has just been gained, so every job gets a live look: versions that are listed now prove it."""
        self._leads.set()

    async def run(self, seconds: float) -> None:
        """Sweeps until cancelled, with this pause."""
        while True:
            try:
                await asyncio.wait_for(self._leads.wait(), seconds)
            except TimeoutError:
                await self.sweep(seconds / 2)
            else:
                self._leads.clear()
                await self.note_versions()

    async def note_versions(self) -> None:
        """Lists, and queues every job: looks that begin from now on are proven by the next sweep. For :meth:`run`.

        A watch that begins behind the list passes over the version of a job that the list has brought.
        """
        self._proofs = {}
        for namespace in self._namespaces or (None,):
            listed = await self._list(namespace) or {}
            for key, number in (await self._versions(namespace, listed)).items():
                self._proofs[key] = Proof(number, time.monotonic())
            for key in listed:
                self._queue.add(key)

    async def sweep(self, spread: float) -> None:
        """Queues every job once, spread over some seconds to limit the load of the API server.

        A job whose objects have changed since its last live look, and a job that no list proves, gets a live look. A
        job that rests, and has not changed, is not queued.
        """
        queued: set[JobKey] = set()
        before, self._proofs = self._proofs, {}
        for namespace in self._namespaces or (None,):
            listed = await self._list(namespace)
            if listed is None:
                continue
            for key in set(self._cache.keys) - listed.keys():
                if namespace in {None, key.namespace}:
                    self._queue.add(key)
            queued |= await self._judge(namespace, listed, before)
        for number, key in enumerate(sorted(queued)):
            self._queue.add_later(key, spread * (number + 1) / (len(queued) + 1))

    async def _judge(
        self, namespace: str | None, listed: dict[JobKey, _Listed], before: dict[JobKey, Proof]
    ) -> set[JobKey]:
        """Marks the jobs that need a live look; those that are to be queued."""
        if not self._may_act():
            return set(listed)
        found = await self._versions(namespace, listed)
        queued = set()
        for key, each in listed.items():
            proven = not each.behind and self._proves(key, found.get(key), before.get(key))
            if not proven:
                self._cache.access_changed(key)
            if not (proven and each.rests):
                queued.add(key)
        return queued

    def _proves(self, key: JobKey, number: int | None, before: Proof | None) -> bool:
        """Whether the last live look is proven. Keeps the versions for the next sweep, with their first time."""
        if number is None:
            return False
        is_same = before is not None and before.number == number
        self._proofs[key] = before if before is not None and is_same else Proof(number, time.monotonic())
        return is_proven(before, number, looked_at=self._looked_at(key))

    async def _versions(self, namespace: str | None, jobs: dict[JobKey, _Listed]) -> dict[JobKey, int]:
        """Of each job; empty where a list failed, so that every job gets a live look."""
        versions = Versions(jobs)
        try:
            for kind in KINDS if jobs else ():
                async for page in self._cluster.list_objects(kind, namespace):
                    for body in page:
                        versions.add(kind, body)
        except ClusterError as error:
            LOG.warning("listing the objects of jobs failed, so each gets a live look: %s", error.message)
            return {}
        return versions.sums

    async def _list(self, namespace: str | None) -> dict[JobKey, _Listed] | None:
        """The jobs of a namespace, or of all; None where the list failed: other namespaces are still swept."""
        found: dict[JobKey, _Listed] = {}
        try:
            async for page in self._cluster.list_jobs(namespace):
                for body in page:
                    meta = body["metadata"]
                    key = JobKey(meta["namespace"], meta["name"])
                    if not self._includes(key.namespace):
                        continue
                    if not self._cache.version(key):
                        self._cache.put_job(body)
                    behind = self._cache.version(key) != str(meta.get("resourceVersion", ""))
                    rests = (body.get("status") or {}).get("state") in _RESTING and "deletionTimestamp" not in meta
                    found[key] = _Listed(behind, rests)
        except ClusterError as error:
            LOG.warning("listing the jobs of %s failed: %s", namespace or "all namespaces", error.message)
            return None
        return found
