"""Kopf's handlers of each kind of object: they put what a watch brings into the cache, and queue the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.watches.retention import Retention
from kafkasparkjob_operator.controller.watches.snapshots import Snapshots
from kafkasparkjob_operator.controller.watches.state_pins import StatePins
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.observation import job_key
from kafkasparkjob_operator.observation.pod_view import pod_view
from sparkapp.model import names

RBAC = "rbac.authorization.k8s.io"
REPORT_SECONDS = 0.5
"""A job whose reports come faster is reconciled twice a second. Its driver may be hostile."""


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


def register_snapshots(
    registry: kopf.OperatorRegistry,
    cache: Cache,
    queue: WorkQueue,
    *,
    snapshots: Snapshots,
    retention: Retention,
    pins: StatePins,
) -> None:
    """Registers the watch of all KafkaSparkSnapshots. Those of the operator concern their job, too."""

    @kopf.on.event(names.GROUP, names.VERSION, names.SNAPSHOT_PLURAL, registry=registry)
    async def snapshot_event(*, event: Any, **_: Any) -> None:
        body, deleted = event["object"], event["type"] == "DELETED"
        snapshots.put(body, deleted=deleted)
        retention.put(body, deleted=deleted)
        pins.put(body, deleted=deleted)
        meta = body["metadata"]
        key = cache.drop_snapshot(JobKey(meta["namespace"], meta["name"])) if deleted else cache.put_snapshot(body)
        if key is not None:
            queue.add(key)


def register_access(
    registry: kopf.OperatorRegistry, cache: Cache, queue: WorkQueue, includes: Callable[[str], bool]
) -> None:
    """Registers the watches of drivers' Roles and RoleBindings and of jobs' NetworkPolicies.

    A change by anybody is repaired. The label selector is in the settings of the watch.
    """

    @kopf.on.event(RBAC, "v1", "roles", registry=registry)
    @kopf.on.event(RBAC, "v1", "rolebindings", registry=registry)
    @kopf.on.event("networking.k8s.io", "v1", "networkpolicies", registry=registry)
    async def access_event(*, event: Any, **_: Any) -> None:
        key = job_key(event["object"])
        if key is None or not includes(key.namespace) or event["type"] not in {"MODIFIED", "DELETED"}:
            return  # an existing object is compared at each live look
        cache.access_changed(key)
        queue.add(key)
