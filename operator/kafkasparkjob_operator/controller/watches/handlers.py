"""The handlers of watched objects: they put what a watch brings into the cache, and queue the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.watches.retention import Retention
from kafkasparkjob_operator.controller.watches.snapshots import Snapshots
from kafkasparkjob_operator.controller.watches.state_pins import StatePins
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.observation import job_key
from kafkasparkjob_operator.observation.pod_view import pod_view
from sparkapp.model import names

REPORT_SECONDS = 0.5
"""A job whose reports come faster is reconciled twice a second. Its driver may be hostile."""
Event = Mapping[str, Any]


class Handlers:
    """The handlers of what jobs need. The watch boundary calls them for every event, in order.

    :param includes: False for a namespace whose jobs are ignored.
    """

    def __init__(self, cache: Cache, queue: WorkQueue, includes: Callable[[str], bool]) -> None:
        self._cache, self._queue, self._includes = cache, queue, includes

    @property
    def by_plural(self) -> dict[str, Callable[[Event], None]]:
        """The handler of each kind."""
        access = dict.fromkeys(("roles", "rolebindings", "networkpolicies"), self._access)
        return {names.PLURAL: self._job, "pods": self._pod, "configmaps": self._report, **access}

    def _job(self, event: Event) -> None:
        body = event["object"]
        meta = body["metadata"]
        if not self._includes(meta["namespace"]):
            return
        key, version = JobKey(meta["namespace"], meta["name"]), str(meta["resourceVersion"])
        if event["type"] == "DELETED":
            self._cache.drop_job(key)
        elif self._cache.version(key) == version:
            return  # the answer to the operator's own write brought this version
        else:
            self._cache.put_job(body)
        self._queue.add(key)

    def _pod(self, event: Event) -> None:
        """The label selector is in the settings of the watch."""
        body = event["object"]
        key, pod = job_key(body), pod_view(body)
        if key is None or not self._includes(key.namespace) or pod is None:
            return
        if event["type"] == "DELETED":
            self._cache.drop_pod(key, pod.uid)
        elif not self._cache.put_pod(key, pod):
            return
        self._queue.add(key)

    def _report(self, event: Event) -> None:
        """State and attempts are read when they are needed."""
        body = event["object"]
        key = job_key(body)
        if key is None or not self._includes(key.namespace):
            return
        if body["metadata"]["name"] != names.report_config_map(key.name):
            return  # anybody may write the labels
        if event["type"] == "DELETED":
            self._cache.drop_report(key)
        elif not self._cache.put_report(key, body):
            return
        self._queue.add_paced(key, REPORT_SECONDS)

    def _access(self, event: Event) -> None:
        """Of drivers' Roles and RoleBindings and of jobs' NetworkPolicies: a change by anybody is repaired."""
        key = job_key(event["object"])
        if key is None or not self._includes(key.namespace) or event["type"] not in {"MODIFIED", "DELETED"}:
            return  # an existing object is compared at each live look
        self._cache.access_changed(key)
        self._queue.add(key)


def snapshot_handler(
    cache: Cache, queue: WorkQueue, *, snapshots: Snapshots, retention: Retention, pins: StatePins
) -> Callable[[Event], None]:
    """The handler of KafkaSparkSnapshots. Those of the operator concern their job, too."""

    def snapshot_event(event: Event) -> None:
        body, deleted = event["object"], event["type"] == "DELETED"
        snapshots.put(body, deleted=deleted)
        retention.put(body, deleted=deleted)
        pins.put(body, deleted=deleted)
        meta = body["metadata"]
        key = cache.drop_snapshot(JobKey(meta["namespace"], meta["name"])) if deleted else cache.put_snapshot(body)
        if key is not None:
            queue.add(key)

    return snapshot_event
