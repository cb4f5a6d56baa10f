"""Watches the custom resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from sparkapp.model import names


def register_jobs(
    registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue, includes: Callable[[str], bool]
) -> None:
    """Registers the watch of all KafkaSparkJobs.

    :param includes: False for a namespace whose jobs are ignored.
    """

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_event(*, event: Any, **_: Any) -> None:
        body = event["object"]
        meta = body["metadata"]
        if not includes(meta["namespace"]):
            return
        key, version = JobKey(meta["namespace"], meta["name"]), str(meta["resourceVersion"])
        if event["type"] == "DELETED":
            cache.drop_job(key)
        elif cache.version(key) == version:
            return  # the answer to the operator's own write brought this version
        else:
            cache.put_job(body)
        queue.add(key)
