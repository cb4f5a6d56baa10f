"""Leader election by a Lease: a single operator acts, and an operator that is cut off stops before another begins.

The algorithm is client-go's: the holder renews the Lease. Another process takes over when it has seen no renewal for
the Lease's whole duration by its own clock, so clocks need not agree.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.clock import now
from kafkasparkjob_operator.kubernetes.port import Body, Cluster, ClusterError, ObjectConflict

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. ``renew_deadline`` and the longest write, except a pod's creation, must end within ``lease``."""

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


class Leadership:
    """Holds, or waits for, the Lease.

    :param cluster: the cluster that has the Lease.
    :param identity: unique name of this process.
    :param changed: called at each gain and loss.
    :param clock: monotonic seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        name: str,
        identity: str,
        changed: Callable[[bool], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._namespace, self._name = namespace, name
        self._identity = identity
        self._changed = changed
        self._timing = Timing()
        self._clock = clock
        self._renewed_at: float | None = None
        self._seen: tuple[Any, float] | None = None
        self._held: Body | None = None
        self._announced = False

    @property
    def leading(self) -> bool:
        """True while this process may act. Checked before every write, so that a loss takes effect at once."""
        return self._renewed_at is not None and self._clock() < self._renewed_at + self._timing.renew_deadline

    async def run(self) -> None:
        """Renews or tries to take over until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(self._timing.retry)

    async def step(self) -> None:
        """A try to renew the Lease or to take it over."""
        began = self._clock()
        try:
            acquired = await self._acquired()
            # A lapse that ends here is announced, too: the jobs that it delayed have to be reconciled.
            self._announce()
            if acquired:
                # Counted from before the request, so that this process never sees a longer lease than others.
                self._renewed_at = began
            else:
                self._renewed_at = None
        except ClusterError as error:
            self._held = None
            LOG.warning("renewal of the lease failed: %s", error.message)
        self._announce()

    async def release(self) -> None:
        """Releases the Lease at once instead of letting it expire. Nothing in this process may act after the call."""
        if not self.leading:
            return
        self._renewed_at = self._held = None
        self._announce()
        try:
            lease = await self._cluster.get("Lease", self._namespace, self._name)
            if lease is not None and _spec(lease).get("holderIdentity") == self._identity:
                spec = {**_spec(lease), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
                await self._cluster.replace({**lease, "kind": "Lease", "spec": spec})
        except ClusterError as error:
            LOG.warning("release of the lease failed; it expires by itself: %s", error.message)

    async def _acquired(self) -> bool:
        # The holder needs no read: a change by another process makes the renewal conflict.
        lease = self._held or await self._cluster.get("Lease", self._namespace, self._name)
        if lease is None:
            manifest = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": self._claim(transitions=0),
            }
            self._held = await self._cluster.create(manifest)
            return True
        spec = _spec(lease)
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self._identity} and not self._expired(lease):
            return False
        transitions = int(spec.get("leaseTransitions") or 0) + (0 if holder == self._identity else 1)
        claim = self._claim(transitions=transitions)
        if holder == self._identity and spec.get("acquireTime"):
            claim["acquireTime"] = spec["acquireTime"]
        renewed = self._held is not None
        self._held = None
        try:
            self._held = await self._cluster.replace({**lease, "kind": "Lease", "spec": {**spec, **claim}})
        except ObjectConflict:
            if not renewed:
                return False  # another process was faster
            return await self._acquired()
        return True

    def _expired(self, lease: Body) -> bool:
        """True where no process has renewed for the whole duration, by this process's clock."""
        spec = _spec(lease)
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if self._seen is None or self._seen[0] != record:
            self._seen = (record, self._clock())
            return False
        duration = float(spec.get("leaseDurationSeconds") or self._timing.lease)
        return self._clock() >= self._seen[1] + duration

    def _claim(self, *, transitions: int) -> dict[str, Any]:
        moment = _micro_time()
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.lease),
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": transitions,
        }

    def _announce(self) -> None:
        if self.leading != self._announced:
            self._announced = self.leading
            LOG.info("%s the lease %s/%s", "acquired" if self._announced else "lost", self._namespace, self._name)
            self._changed(self._announced)


class AlwaysLeading:
    """Stands in for :class:`Leadership` where a single process is certain."""

    leading = True

    def __init__(self, changed: Callable[[bool], None]) -> None:
        self._changed = changed

    async def run(self) -> None:
        self._changed(True)
        await asyncio.Event().wait()

    async def release(self) -> None:
        """There is no Lease to release."""


def _spec(lease: Body) -> dict[str, Any]:
    return dict(lease.get("spec") or {})


def _micro_time() -> str:
    return now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
