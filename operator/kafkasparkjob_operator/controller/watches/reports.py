"""Watches the drivers' reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.observation.observation import job_key
from sparkapp.model import names

REPORT_SECONDS = 0.5
"""A job whose reports come faster is reconciled twice a second. Its driver may be hostile."""


def register_reports(
    registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue, includes: Callable[[str], bool]
) -> None:
    """Registers the watch of the report ConfigMaps; state and attempts are read when they are needed."""

    @kopf.on.event("", "v1", "configmaps", registry=registry)
    async def report_event(*, event: Any, **_: Any) -> None:
        body = event["object"]
        key = job_key(body)
        if key is None or not includes(key.namespace) or body["metadata"]["name"] != names.report_config_map(key.name):
            return  # anybody may write the labels
        if event["type"] == "DELETED":
            cache.drop_report(key)
        else:
            cache.put_report(key, body)
        queue.add_paced(key, REPORT_SECONDS)
