"""Creates and deletes the snapshots of the operator. A failure never holds up the job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.event_recorder import EventRecorder
from kafkasparkjob_operator.controller.job_objects.plan_runner import PlanRunner
from kafkasparkjob_operator.decisions.lifecycle.deletion import NAMESPACE_ENDS
from kafkasparkjob_operator.decisions.lifecycle.snapshots import REFUSED, REFUSED_SECONDS, RETRY_TIME, SNAPSHOTS
from kafkasparkjob_operator.decisions.plan import CreateSnapshot, DeleteSnapshot, Plan
from kafkasparkjob_operator.identity import API_VERSION, ROLE_SNAPSHOT, JobIdentity, JobKey
from kafkasparkjob_operator.kubernetes.port import ClusterError, NotLeading, ObjectExists, ObjectRefused
from kafkasparkjob_operator.observation.named_snapshots import named_snapshots
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.snapshot_fields import SnapshotTrigger
from sparkapp.model import names

LISTED_SECONDS = 10.0
"""Age of a list of jobs that is used again: jobs with one schedule delete their oldest snapshots at one time."""
_PERIODIC = SnapshotTrigger.PERIODIC
LOG = logging.getLogger(__name__)


class SnapshotRequests:
    """Carries out what plans say about snapshots. Called by the reconciler, before it writes the status."""

    def __init__(
        self, runner: PlanRunner, recorder: EventRecorder, cache: Cache, *, now: Callable[[], datetime]
    ) -> None:
        """:param now: the wall clock."""
        self._now = now
        self._runner = runner
        self._recorder = recorder
        self._cache = cache
        self._named: dict[str, tuple[datetime, frozenset[str]]] = {}

    async def carry_out(self, job: JobResource, the_plan: Plan, status: Mapping[str, Any]) -> Mapping[str, Any]:
        """Deletions come first, because a quota may need their room. A failure is that of its request alone.

        :returns: the status to write; another where a creation was refused, with the time of the next try.
        :raises NotLeading: another process may act already.
        :raises ObjectRefused: the namespace of a job that is being deleted ends, and takes no snapshot.
        """
        for deletion in (action for action in the_plan.actions if isinstance(action, DeleteSnapshot)):
            try:
                await self._delete(deletion, job.identity)
            except NotLeading:
                raise
            except ClusterError as error:
                await self._not_deleted(job, deletion, error)
                if not isinstance(error, ObjectRefused):
                    break  # each of the others may wait as long for an answer
        for creation in (action for action in the_plan.actions if isinstance(action, CreateSnapshot)):
            try:
                await self._create(creation, job.identity)
            except NotLeading:
                raise
            except ClusterError as error:
                if job.deleting and isinstance(error, ObjectRefused) and NAMESPACE_ENDS in error.message:
                    raise
                status = await self._not_created(job, creation, status, error)
        return status

    async def _create(self, action: CreateSnapshot, job: JobIdentity) -> None:
        try:
            body = await self._runner.guard().create(snapshot(action, job))
        except ObjectExists:
            return  # of an earlier try; the watch brings it
        self._cache.put_snapshot(body)

    async def _delete(self, action: DeleteSnapshot, job: JobIdentity) -> None:
        """Deletes it, unless a spec names it, or somebody has just deleted the successor without which it stays."""
        key = JobKey(job.namespace, action.name)
        if action.name in await self._named_in(job.namespace):
            self._cache.spare_snapshot(key)
            return
        cluster = self._runner.guard()
        if action.successor:
            body = await cluster.get(names.SNAPSHOT_KIND, job.namespace, action.successor)
            if body is None or body["metadata"]["uid"] != action.successor_uid:
                self._cache.drop_snapshot(JobKey(job.namespace, action.successor))
                return
        await cluster.delete(names.SNAPSHOT_KIND, job.namespace, action.name, uid=action.uid)
        self._cache.drop_snapshot(key)

    async def _named_in(self, namespace: str) -> frozenset[str]:
        """What the specs of the jobs of a namespace name: the cache may be behind, or empty with a new operator."""
        now = self._now()
        self._named = {
            name: kept for name, kept in self._named.items() if 0 <= (now - kept[0]).total_seconds() < LISTED_SECONDS
        }
        if namespace not in self._named:
            found: set[str] = set()
            async for page in self._runner.guard().list_jobs(namespace):
                found.update(*(named_snapshots(body.get("spec")) for body in page))
            self._named[namespace] = (now, frozenset(found))
        return self._named[namespace][1]

    async def _not_deleted(self, job: JobResource, action: DeleteSnapshot, error: ClusterError) -> None:
        self._cache.spare_snapshot(JobKey(job.identity.namespace, action.name))
        await self._tell(job, "deletion", f"snapshot {action.name} is not deleted: {error.message}")

    async def _not_created(
        self, job: JobResource, action: CreateSnapshot, status: Mapping[str, Any], error: ClusterError
    ) -> Mapping[str, Any]:
        text = f"snapshot {action.name} is not created: {error.message}"
        await self._tell(job, "creation", text)
        if SNAPSHOTS not in status or action.trigger is not _PERIODIC:
            return status
        retry = format_time(self._now() + timedelta(seconds=REFUSED_SECONDS))
        return {**status, SNAPSHOTS: {**status[SNAPSHOTS], "state": REFUSED, "message": text, RETRY_TIME: retry}}

    async def _tell(self, job: JobResource, what: str, text: str) -> None:
        LOG.warning("%s: %s", job.identity.key, text)
        occurrence = f"snapshot-{what}-refused"
        event = JobEvent(occurrence=occurrence, reason=JobReason.SNAPSHOT_FAILED, message=text, warning=True)
        await self._recorder.record(job, (event,))


def snapshot(action: CreateSnapshot, job: JobIdentity) -> dict[str, Any]:
    """The KafkaSparkSnapshot; its UID of the job never changes, so another job of the name fails it."""
    return {
        "apiVersion": API_VERSION,
        "kind": names.SNAPSHOT_KIND,
        "metadata": {
            "name": action.name,
            "namespace": job.namespace,
            "labels": names.labels(job.name, role=ROLE_SNAPSHOT),
            **({"ownerReferences": [job.owner_reference()]} if action.owned else {}),
        },
        "spec": {"jobRef": {"name": job.name, "uid": job.uid}, "trigger": str(action.trigger)},
    }
