"""Watches the pods of drivers and executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.observation.observation import job_key
from kafkasparkjob_operator.observation.pod_view import pod_view


def register_pods(
    registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue, includes: Callable[[str], bool]
) -> None:
    """Registers the watch of the jobs' pods; the label selector is in the settings of the watch."""

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def pod_event(*, event: Any, **_: Any) -> None:
        body = event["object"]
        key, pod = job_key(body), pod_view(body)
        if key is None or not includes(key.namespace) or pod is None:
            return
        if event["type"] == "DELETED":
            cache.drop_pod(key, pod.uid)
        else:
            cache.put_pod(key, pod)
        queue.add(key)
