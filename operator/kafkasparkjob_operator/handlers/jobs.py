"""The custom resources."""

from __future__ import annotations

from typing import Any

import kopf

from kafkasparkjob_operator.cache import Cache
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.watch_monitor import WatchMonitor
from kafkasparkjob_operator.work_queue import WorkQueue
from sparkapp.model import names


def register_jobs(registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue, monitor: WatchMonitor) -> None:
    """Registers the watch of all KafkaSparkJobs."""

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_event(*, event: Any, **_: Any) -> None:
        body = event["object"]
        meta = body["metadata"]
        key, version = JobKey(meta["namespace"], meta["name"]), str(meta["resourceVersion"])
        monitor.told(key, version)
        if event["type"] == "DELETED":
            cache.drop_job(key)
        elif cache.version(key) == version:
            return  # our own write: its answer was newer than this event
        else:
            cache.put_job(body)
        queue.add(key)
