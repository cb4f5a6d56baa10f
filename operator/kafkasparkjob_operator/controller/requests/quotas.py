"""Reads the ResourceQuotas of namespaces, for jobs that the autoscaler wants to grow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError
from kafkasparkjob_operator.observation.quota_view import QuotaRow, quota_rows

LOG = logging.getLogger(__name__)

KEPT_SECONDS = 10.0
"""Age of an answer that is used again: a job without room asks with each report."""


class Quotas:
    """The quotas of namespaces. Called by the reconciler.

    :param clock: monotonic seconds.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster, self._clock = cluster, clock
        self._kept: dict[str, tuple[float, tuple[QuotaRow, ...]]] = {}

    async def of(self, namespace: str) -> tuple[QuotaRow, ...]:
        """The rows of the namespace's quotas; none where they cannot be read: Kubernetes decides in any case."""
        now = self._clock()
        self._kept = {name: kept for name, kept in self._kept.items() if now - kept[0] < KEPT_SECONDS}
        if namespace not in self._kept:
            try:
                rows = quota_rows(await self._cluster.list_quotas(namespace))
            except ClusterError as error:
                LOG.info("%s: its quotas are unknown: %s", namespace, error.message)
                rows = ()
            self._kept[namespace] = (now, rows)
        return self._kept[namespace][1]
