"""A token bucket for each job's events, so that a job cannot flood the events of its namespace, or the API server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kafkasparkjob_operator.identity import JobKey


@dataclass(frozen=True, slots=True)
class Rate:
    """A bucket of ``burst`` events, which gets one more every ``refill_seconds``."""

    burst: int
    refill_seconds: float


DRIVER = Rate(25, 300.0)
"""Of the events that a driver reports, which job code may forge. The numbers of client-go's
``EventSourceObjectSpamFilter``, which the kubelet has (``defaultSpamBurst``, ``defaultSpamQPS``)."""
OPERATOR = Rate(100, 30.0)
"""Of the operator's own events: a driver's flood does not displace them. A start and its failure are four events, so a
job that restarts every two minutes loses none."""


class EventBuckets:
    """Called by the event recorder for each event that is not yet published."""

    def __init__(self) -> None:
        self._left: dict[JobKey, dict[Rate, tuple[float, datetime]]] = {}

    def take(self, key: JobKey, now: datetime, *, reported: bool) -> bool:
        """Takes a token; False where the bucket is empty.

        :param reported: the driver reports the event.
        """
        rate = DRIVER if reported else OPERATOR
        buckets = self._left.setdefault(key, {})
        tokens, since = buckets.get(rate, (float(rate.burst), now))
        passed = max(0.0, (now - since).total_seconds())
        tokens = min(float(rate.burst), tokens + passed / rate.refill_seconds)
        taken = tokens >= 1
        buckets[rate] = (tokens - 1 if taken else tokens, now)
        return taken

    def forget(self, key: JobKey) -> None:
        """The job is gone."""
        self._left.pop(key, None)
