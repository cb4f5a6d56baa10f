"""A driver that reports a load, as the autoscaler reads it."""

from __future__ import annotations

import time
from typing import Any

from sparkapp.model.report import Load, PartitionLoad
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.api_server_job import LiveJob

POLICY: dict[str, Any] = {"maxParallelism": 8, "stabilizationSeconds": 1, "scaleDownDelaySeconds": 2}


def load(arrived: int, *, read: int, busy: int) -> Load:
    """Evenly spread over eight partitions."""
    return Load(
        window_millis=3000, busy_percent=busy, lag=0, arrived_per_second=arrived, read_per_second=read, partitions=8,
        heaviest=tuple(PartitionLoad("orders", number, 0, arrived // 8, read // 8) for number in range(8)),
    )  # fmt: skip


MORE, LITTLE = load(4000, read=1900, busy=95), load(80, read=80, busy=4)


def reports(job: LiveJob, found: Load, wanted: Any, *, attempt: int = 1, **fields: Any) -> None:
    """The driver reports until something has followed."""

    def there() -> bool:
        job.report(attempt, checkpoint_id=10 + int(time.monotonic()), engine="Continuous", load=found, **fields)
        return bool(wanted())

    await_that("what follows from the load", there, seconds=60)
