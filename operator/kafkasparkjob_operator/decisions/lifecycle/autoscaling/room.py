"""The room that the ResourceQuotas of a namespace leave for more executors. Pure.

The room of the nodes is not asked: it would need a right on all pods of the cluster. Executors that find no node are
taken back (:mod:`~kafkasparkjob_operator.decisions.lifecycle.autoscaling.decision`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from kafkasparkjob_operator.observation.quota_view import QuotaRow
from kafkasparkjob_operator.workload import Workload
from sparkapp.model.checkpoint.naming import MAX_PARALLELISM

_MEBIBYTE = Decimal(1 << 20)
_BYTES = ("memory", "storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What quotas leave.

    :param parallelism: the largest that has room. :param cause: the last part of a message; empty without a limit.
    """

    parallelism: int = MAX_PARALLELISM
    cause: str = ""


UNLIMITED = Room()


def room_of(rows: Iterable[QuotaRow], workload: Workload, *, running: int) -> Room:
    """Called by the autoscaler before a growth.

    :param rows: of the job's namespace. :param running: executors that the quotas count already.
    """
    needs = _needs(workload)
    limits = [(_more(row, needs[row.resource]), row) for row in rows if row.resource in needs]
    if not limits:
        return UNLIMITED
    more, row = min(limits, key=lambda limit: limit[0])
    cause = (
        f"; ResourceQuota {row.quota} has {_text(row.resource, row.hard - row.used)} of"
        f" {_text(row.resource, row.hard)} {row.resource} left, room for {more} more executor(s)"
    )
    return Room(parallelism=(running + more) * workload.executor_cores, cause=cause)


def _more(row: QuotaRow, need: Decimal) -> int:
    return max(0, math.floor((row.hard - row.used) / need))


def _needs(workload: Workload) -> dict[str, Decimal]:
    """What an executor takes of each resource that a quota may limit."""
    pod = workload.executor
    cpu, memory = Decimal(pod.cpu_request) / 1000, pod.container_mebibytes * _MEBIBYTE
    storage = pod.storage_request_mebibytes * _MEBIBYTE
    needs = {
        "pods": Decimal(1), "count/pods": Decimal(1), "cpu": cpu, "requests.cpu": cpu,
        "limits.cpu": Decimal(pod.cpu_limit) / 1000, "memory": memory, "requests.memory": memory,
        "limits.memory": memory, "ephemeral-storage": storage, "requests.ephemeral-storage": storage,
        "limits.ephemeral-storage": pod.storage_limit_mebibytes * _MEBIBYTE,
    }  # fmt: skip
    return {resource: need for resource, need in needs.items() if need > 0}


def _text(resource: str, number: Decimal) -> str:
    if resource.endswith(_BYTES):
        return f"{number / _MEBIBYTE:.0f}Mi"
    return f"{number.normalize():f}"
