"""Watches the drivers' Roles and RoleBindings and the jobs' NetworkPolicies: a change by anybody is repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.observation.observation import job_key

GROUP = "rbac.authorization.k8s.io"


def register_access(
    registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue, includes: Callable[[str], bool]
) -> None:
    """Registers the watches of these objects; the label selector is in the settings of the watch."""

    @kopf.on.event(GROUP, "v1", "roles", registry=registry)
    @kopf.on.event(GROUP, "v1", "rolebindings", registry=registry)
    @kopf.on.event("networking.k8s.io", "v1", "networkpolicies", registry=registry)
    async def access_event(*, event: Any, **_: Any) -> None:
        key = job_key(event["object"])
        if key is None or not includes(key.namespace) or event["type"] not in {"MODIFIED", "DELETED"}:
            return  # an existing object is compared at each live look
        cache.access_changed(key)
        queue.add(key)
