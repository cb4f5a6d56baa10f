"""Publishes events before their status, without delaying it: a refused event is dropped and counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import Cluster, ClusterError, NotLeading, ObjectExists
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.status.event_bucket import DRIVER, EventBuckets
from kafkasparkjob_operator.status.events import JobEvent, Published, event_manifest, event_name
from kafkasparkjob_operator.status.reasons import JobReason

LOG = logging.getLogger(__name__)

EVENT_SECONDS = 1.0
"""Time limit for all events of a reconcile; the status is written after that."""
FLOOD = JobEvent(
    occurrence="flood", reason=JobReason.EVENTS_THROTTLED, warning=True,
    message=f"events of this job are dropped: it has more than {DRIVER.burst} events and one each"
    f" {DRIVER.refill_seconds / 60:.0f} minutes; the metric kafkaspark_operator_events_throttled_total counts them",
)  # fmt: skip
"""Published instead of the dropped events, once in
:data:`~kafkasparkjob_operator.status.events.REMEMBER_SECONDS`."""


class EventRecorder:
    """Creates events.

    Called by the reconciler. An event is sent once in :data:`~kafkasparkjob_operator.status.events.REMEMBER_SECONDS`,
    whatever the result.

    :param guard: returns the cluster for a single write; raises :class:`NotLeading`.
    :param dropped: called for each unpublished event with the HTTP status; 0 where no answer came in time.
    :param throttled: called for each event that found its job's bucket empty.
    :param now: the wall clock.
    """

    def __init__(
        self,
        guard: Callable[[], Cluster],
        *,
        dropped: Callable[[int], None],
        throttled: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._guard = guard
        self._dropped = dropped
        self._throttled = throttled
        self._now = now
        self._published = Published()
        self._buckets = EventBuckets()

    async def record(self, job: JobResource, events: tuple[JobEvent, ...]) -> None:
        """Publishes new events, within :data:`EVENT_SECONDS`.

        :raises NotLeading: this process may not write.
        """
        key = job.identity.key
        deadline = asyncio.get_running_loop().time() + EVENT_SECONDS
        flood = False
        for event in events:
            now = self._now()
            name = event_name(event, job.identity)
            if self._published.knows(key, name, now):
                continue
            if self._buckets.take(key, now, reported=event.reported):
                await self._send(job, event, deadline)
            else:
                flood = True
                self._throttled()
            self._published.note(key, name, now)
        if flood and not self._published.knows(key, event_name(FLOOD, job.identity), self._now()):
            await self._send(job, FLOOD, deadline)
            self._published.note(key, event_name(FLOOD, job.identity), self._now())

    async def _send(self, job: JobResource, event: JobEvent, deadline: float) -> None:
        key = job.identity.key
        manifest = event_manifest(event, job.identity, resource_version=job.resource_version, now=self._now())
        try:
            async with asyncio.timeout_at(deadline):
                await self._guard().create(manifest)
            LOG.info("%s: %s: %s", key, event.reason, event.text)
        except ObjectExists:
            pass  # published before
        except NotLeading:
            raise
        except ClusterError as error:
            self._drop(key, event, error.message, error.status)
        except TimeoutError:
            self._drop(key, event, f"no answer within {EVENT_SECONDS:.0f} s", 0)

    def forget(self, key: JobKey) -> None:
        """The job is gone."""
        self._published.forget(key)
        self._buckets.forget(key)

    def _drop(self, key: JobKey, event: JobEvent, why: str, status: int) -> None:
        LOG.warning("%s: event dropped: %s: %s (%s)", key, why, event.reason, event.text)
        self._dropped(status)
