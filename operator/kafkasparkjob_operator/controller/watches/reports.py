"""The drivers' reports."""

from __future__ import annotations

from typing import Any

import kopf

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.observation.observation import job_key


def register_reports(registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue) -> None:
    """Registers the watch of the report ConfigMaps; state and attempts are read when they are needed."""

    @kopf.on.event("", "v1", "configmaps", registry=registry)
    async def report_event(*, event: Any, **_: Any) -> None:
        body = event["object"]
        key = job_key(body)
        if key is None:
            return
        if event["type"] == "DELETED":
            cache.drop_report(key)
        else:
            cache.put_report(key, body)
        queue.add(key)
