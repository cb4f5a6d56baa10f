"""A live look: the job and its objects as the API server has them, before anything is created or deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import Body, Cluster, ClusterError
from kafkasparkjob_operator.observation.observation import (
    JobResource,
    attempt_record,
    has_name_of_attempt,
    job_resource,
    recorded_number,
    stable_revision,
)
from sparkapp.model import names

ATTEMPTS_READ = 8
"""Attempts whose ConfigMaps are read, the newest, and the attempt of the status. A job has two or three. A user
with the right to create ConfigMaps can add thousands of any size; of those the metadata is enough."""


class Found(NamedTuple):
    """The objects of a job.

    :param config_maps: state, report and attempts; attempts that were not read have metadata only.
    :param report: the report's ConfigMap, which is also in ``config_maps``.
    """

    body: Body
    pods: Sequence[Body]
    config_maps: Sequence[Body]
    report: Body | None


async def look_at(cluster: Cluster, key: JobKey, *, failed: Callable[[JobKey], None] = lambda _: None) -> Found | None:
    """Reads the job and its objects: by name where the name is known, which costs the same in a namespace of any size.

    Called by the reconciler.

    :param failed: called where a request failed.
    :returns: None where the job does not exist.
    :raises ClusterError: a request failed.
    """
    try:
        return await _found(cluster, key)
    except ClusterError:
        failed(key)
        raise


async def _found(cluster: Cluster, key: JobKey) -> Found | None:
    body = await cluster.get_job(key)
    if body is None:
        return None
    # This order never misses a pod of the status, or the ConfigMap of a pod.
    pods = await cluster.list_pods(key)
    listed = await cluster.list_attempts(key)
    report = names.report_config_map(key.name)
    job, own = job_resource(body), {config_map["metadata"]["name"] for config_map in listed}
    stable = [name for name in (stable_revision(job),) if name in own]
    named = [names.state_config_map(key.name), report, *stable, *_attempts_to_read(job, listed)]
    read = await asyncio.gather(*(cluster.get("ConfigMap", key.namespace, name) for name in named))
    found = {name: config_map for name, config_map in zip(named, read, strict=True) if config_map is not None}
    others = [config_map for config_map in listed if config_map["metadata"]["name"] not in named]
    return Found(body, pods, [*others, *found.values()], found.get(report))


def _attempts_to_read(job: JobResource, listed: Iterable[Body]) -> list[str]:
    """Names of the attempts' ConfigMaps that belong to this incarnation of the resource by name and owner."""
    _, name, uid = job.identity
    recorded = recorded_number(job)
    own = {recorded: names.attempt_config_map(name, uid, recorded)}
    for config_map in listed:
        record = attempt_record(config_map)
        if record is not None and record.owner_uid == uid and has_name_of_attempt(record, name):
            own[record.attempt] = record.name
    newest = sorted(own, reverse=True)[:ATTEMPTS_READ]
    return [own[number] for number in {*newest, recorded} - {0}]
