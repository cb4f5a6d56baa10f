"""The job that a resource asks for, read from ``spec`` with every default filled in.

Repeats the CRD's rules, because the CRD in the cluster may be older than the operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafkasparkjob_operator.workload.autoscaler_fields import Autoscaler, checked_autoscaler
from kafkasparkjob_operator.workload.cron import schedule_of
from kafkasparkjob_operator.workload.field_rules import INTERVAL_OR_SCHEDULE, ZONE_WITHOUT_SCHEDULE
from kafkasparkjob_operator.workload.fields import (
    Deletion,
    DeletionPolicy,
    OperatorSpec,
    RestartPolicy,
    SnapshotPolicy,
    StateOnDelete,
    SuccessorPolicy,
    UpgradeMode,
    UpgradePolicy,
)
from kafkasparkjob_operator.workload.job_settings import NO_SETTINGS, JobSettings, PodUser
from kafkasparkjob_operator.workload.pod_fields import MIN_HEAP_MEBIBYTES, MIN_STORAGE_MEBIBYTES, PodFields
from kafkasparkjob_operator.workload.pod_template import NO_TEMPLATE, PodTemplate, read_pod_template
from kafkasparkjob_operator.workload.spark_conf import checked_settings, state_memory
from sparkapp.model import names
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.quantity import mebibytes, millicores
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.rules.object_names import check_object_name
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.spec_from_resource import spec_from_resource

NO_SNAPSHOTS = (
    "snapshots of the operator cannot work with source.groupMembership.mode Subscribe, because the group has the"
    " offsets of the job"
)
NO_RETENTION = "snapshots of a job that keeps state hold a retained checkpoint, and checkpoint.retention.count is 0"
_STORAGE = "ephemeral-storage"
OVERHEAD_FACTOR = 0.4
"""Memory outside the Java heap, as a share of it, for Python and librdkafka. Spark's share for Python."""
MIN_OVERHEAD_MEBIBYTES = 384
DRIVER_MILLICORES = 100
"""CPU request of a driver without ``resources.requests.cpu``: it plans and commits, and reads no records."""
CORE_MILLICORES = 1000
"""The same of an executor, for each of its task slots. Spark requests as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """One kind of pod: driver or executor.

    :param cpu_request: in thousandths of a core.
    :param cpu_limit: likewise; 0 for none.
    :param heap_mebibytes: Java heap.
    :param overhead_mebibytes: memory outside the heap.
    :param storage_request_mebibytes: ephemeral storage: scratch volumes and logs.
    :param storage_limit_mebibytes: likewise; the kubelet evicts a pod that uses more.
    :param env: environment variables as the pod spec writes them.
    :param defaults: fields of the administrator, which are merged onto the operator's pod before all others.
    :param template: fields of the user, which are merged last.
    """

    cpu_request: int
    cpu_limit: int
    heap_mebibytes: int
    overhead_mebibytes: int
    storage_request_mebibytes: int
    storage_limit_mebibytes: int
    env: tuple[Mapping[str, Any], ...] = ()
    defaults: PodTemplate = NO_TEMPLATE
    template: PodTemplate = NO_TEMPLATE

    @property
    def container_mebibytes(self) -> int:
        """The container's memory, request and limit alike."""
        return self.heap_mebibytes + self.overhead_mebibytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the job runs on.

    :param executor_cores: task slots of an executor.
    :param user: user and groups of the pods.
    :param default_image: the resource names no image, and ``image`` is the operator's default.
    :param modules: the ConfigMap that the pods mount the user's modules from; empty for none.
    """

    image: str
    default_image: bool = False
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    driver: PodResources
    executor: PodResources
    executor_instances: int
    executor_cores: int
    user: PodUser = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    modules: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredJob:
    """A resource's spec, resolved.

    :param cluster_id: of the Kubernetes cluster, in default names at Kafka; empty for none.
    :param places: for subtasks, of ``executor.instances`` executors; 0 where executors follow the parallelism.
    """

    spec: JobSpec
    workload: Workload
    restart_nonce: int = 0
    suspend: bool = False
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)
    upgrade: UpgradePolicy = field(default_factory=UpgradePolicy)
    ttl_seconds_after_finished: int | None = None
    autoscaler: Autoscaler | None = None
    places: int = 0
    deletion: Deletion | None = None
    snapshots: SnapshotPolicy | None = None
    cluster_id: str = ""

    @property
    def prepares_next(self) -> bool:
        """Whether a driver for a change prepares while the attempt runs."""
        return self.upgrade.is_blue_green or self.restart_policy.successor is not SuccessorPolicy.AFTER_STOP

    def with_modules(self, name: str) -> DesiredJob:
        """The job with pods that mount the modules from another ConfigMap; empty for no modules.

        Called for an attempt, whose pods mount a copy.
        """
        return replace(self, workload=replace(self.workload, modules=name))

    def same_application(self, other: DesiredJob) -> bool:
        """True where an attempt of this job also runs the other job, so that no restart is needed.

        An attempt with a default image also runs a job that has no image: the operator's upgrade restarts nothing.
        """
        both_default = self.workload.default_image and other.workload.default_image
        return self._application(both_default) == other._application(both_default)

    def same_revision(self, other: DesiredJob) -> bool:
        """:meth:`same_application`, whatever was requested: another restart or a restore is the same revision."""
        spec = replace(self.spec, restore=other.spec.restore)
        return replace(self, spec=spec, restart_nonce=other.restart_nonce).same_application(other)

    def _application(self, any_image: bool) -> tuple[object, ...]:
        # The checkpoint to restore has no effect by itself: a change of the nonce has. A start is over.
        restore = replace(self.spec.restore, checkpoint=0, snapshot="")
        spec = replace(self.spec, restore=restore, start_snapshot="")
        workload = replace(self.workload, image="" if any_image else self.workload.image, default_image=False)
        return spec, workload, self.restart_nonce


def desired_from_resource(
    spec: Mapping[str, Any], *, namespace: str, name: str, settings: JobSettings = NO_SETTINGS
) -> DesiredJob:
    """Reads and checks ``spec``.

    Called by the state machine for the current spec and for the spec that an attempt was started with. Both are read by
    the same release with the same settings, so neither an upgrade of the operator nor a new default restarts anything.

    :raises ConfigurationError: names the field and a valid value.
    """
    job = spec_from_resource(spec, namespace=namespace, name=name, cluster=settings.cluster_id)
    own = read_part(OperatorSpec, Fields(spec, "spec"))
    _check_snapshots(own, job)
    _check_strategy(own.upgrade, job)
    _check_stateless(own, job)
    executor = own.executor
    return DesiredJob(
        spec=job,
        workload=Workload(
            image=own.image or _required(settings.default_image),
            default_image=not own.image,
            image_pull_policy=own.image_pull_policy.value,
            image_pull_secrets=tuple(dict.fromkeys((*settings.image_pull_secrets, *_pull_secrets(own)))),
            driver=_pod_resources(own.driver, names.ROLE_DRIVER, settings.driver, cpu=DRIVER_MILLICORES),
            executor=_pod_resources(
                executor.pods,
                names.ROLE_EXECUTOR,
                settings.executor,
                cpu=CORE_MILLICORES * executor.cores,
                state_mebibytes=state_memory(job, own.spark_conf),
            ),
            executor_instances=executor.instances or math.ceil(job.parallelism / executor.cores),
            executor_cores=executor.cores,
            user=settings.user,
            spark_conf=checked_settings(own.spark_conf),
            modules=job.transform.code,
        ),
        restart_nonce=own.restart_nonce,
        suspend=own.suspend,
        restart_policy=_checked(own.restart_policy),
        upgrade=own.upgrade,
        ttl_seconds_after_finished=own.ttl_seconds_after_finished,
        autoscaler=checked_autoscaler(own.autoscaler),
        places=executor.instances * executor.cores,
        deletion=own.deletion,
        snapshots=own.snapshots,
        cluster_id=settings.cluster_id,
    )


def _check_snapshots(own: OperatorSpec, job: JobSpec) -> None:
    """:raises ConfigurationError: each snapshot of the operator would fail, or nothing would wait for it."""
    last = own.deletion is not None and own.deletion.snapshot
    asked = own.snapshots is not None or own.upgrade.snapshot or last
    remedy = "remove spec.snapshots, spec.upgrade.snapshot and spec.deletion.snapshot"
    if asked and job.source.group_membership.subscribes:
        raise ConfigurationError(NO_SNAPSHOTS, remedy=remedy)
    if asked and job.may_keep_state and not job.retention.count:
        raise ConfigurationError(NO_RETENTION, remedy=f"set spec.checkpoint.retention.count to 1 or more, or {remedy}")
    if own.snapshots is not None:
        _check_times(own.snapshots)
    if last and own.deletion is not None and own.deletion.policy is DeletionPolicy.ORPHAN:
        msg = "spec.deletion.snapshot needs policy Drain or Cancel: with Orphan the resource waits for nothing"
        raise ConfigurationError(msg, remedy="set spec.deletion.policy: Drain")
    removes = own.deletion is not None and own.deletion.state is StateOnDelete.DELETE
    if removes and own.deletion is not None and own.deletion.policy is DeletionPolicy.ORPHAN:
        msg = "spec.deletion.state Delete needs policy Drain or Cancel: with Orphan the resource waits for nothing"
        raise ConfigurationError(msg, remedy="set spec.deletion.policy: Drain")


def _check_strategy(upgrade: UpgradePolicy, job: JobSpec) -> None:
    """:raises ConfigurationError: no new revision could take over."""
    if not upgrade.is_blue_green:
        return
    if job.state_claim:
        msg = "spec.upgrade.strategy BlueGreen cannot work with checkpoint.stateVolume: two drivers cannot mount it"
        raise ConfigurationError(msg, remedy="set spec.upgrade.strategy: Recreate")
    if upgrade.mode is not UpgradeMode.DRAIN:
        msg = "spec.upgrade.strategy BlueGreen needs mode Drain: the new revision takes over at the drain's checkpoint"
        raise ConfigurationError(msg, remedy="set spec.upgrade.mode: Drain, or strategy: Recreate")


def _check_stateless(own: OperatorSpec, job: JobSpec) -> None:
    """:raises ConfigurationError: the group has the offsets of the job, and no start of the job sets them back."""
    if own.upgrade.mode is UpgradeMode.STATELESS and job.source.group_membership.subscribes:
        msg = (
            "spec.upgrade.mode Stateless cannot work with source.groupMembership.mode Subscribe: the consumer group"
            " decides where its members begin"
        )
        remedy = (
            "set spec.upgrade.mode: Drain; to begin elsewhere, suspend the job and use kafka-consumer-groups.sh"
            " --reset-offsets"
        )
        raise ConfigurationError(msg, remedy=remedy)


def _check_times(policy: SnapshotPolicy) -> None:
    """:raises ConfigurationError: no time, or two kinds of times, or a schedule that has none."""
    if bool(policy.schedule) == (policy.interval_seconds is not None):
        raise ConfigurationError(INTERVAL_OR_SCHEDULE, remedy="remove spec.snapshots.intervalSeconds, or set it alone")
    if policy.schedule:
        schedule_of(policy.schedule, policy.time_zone)
    elif policy.time_zone:
        raise ConfigurationError(ZONE_WITHOUT_SCHEDULE, remedy="remove spec.snapshots.timeZone")


def _checked(policy: RestartPolicy) -> RestartPolicy:
    if policy.initial_seconds > policy.max_seconds:
        msg = (
            f"spec.restartPolicy.backoff.initialSeconds ({policy.initial_seconds}) must not exceed"
            f" spec.restartPolicy.backoff.maxSeconds ({policy.max_seconds})"
        )
        raise ConfigurationError(msg, remedy="lower initialSeconds, or raise maxSeconds")
    return policy


def _required(default_image: str) -> str:
    if not default_image:
        msg = "spec.image is missing: the operator has no default job image"
        raise ConfigurationError(msg, remedy="set spec.image, or job.image.repository of the operator's chart")
    return default_image


def restart_policy_of(spec: Mapping[str, Any]) -> RestartPolicy:
    """The restart policy alone, for a spec that is invalid elsewhere; defaults where it cannot be read."""
    try:
        return read_part(RestartPolicy, Fields(spec, "spec").child("restartPolicy"))
    except ConfigurationError:
        return RestartPolicy()


def deletion_of(spec: Mapping[str, Any]) -> Deletion | None:
    """``spec.deletion`` alone, for a spec that is invalid elsewhere; None where it is absent or cannot be read."""
    try:
        return read_part(Deletion, Fields(spec, "spec").child("deletion")) if spec.get("deletion") is not None else None
    except ConfigurationError:
        return None


def _pod_resources(
    pod: PodFields, role: str, defaults: PodTemplate, *, cpu: int, state_mebibytes: int = 0
) -> PodResources:
    """
    :param role: also the name of the field in ``spec``.
    :param cpu: request in thousandths of a core, where the resource has none; at most the limit.
    :param state_mebibytes: memory of query state, which a default overhead has room for.
    """
    path = f"spec.{role}"
    requests, limits = f"{path}.resources.requests", f"{path}.resources.limits"
    heap = mebibytes(pod.memory, f"{path}.memory")
    if heap < MIN_HEAP_MEBIBYTES:
        msg = f"{path}.memory must be at least {MIN_HEAP_MEBIBYTES}Mi for Spark to start"
        raise ConfigurationError(msg)
    overhead = mebibytes(pod.memory_overhead, f"{path}.memoryOverhead") if pod.memory_overhead else 0
    limit = millicores(pod.cpu_limit, f"{limits}.cpu") if pod.cpu_limit else 0
    request = millicores(pod.cpu_request, f"{requests}.cpu") if pod.cpu_request else min(cpu, limit or cpu)
    if limit and request > limit:
        msg = f"{requests}.cpu must not exceed {limits}.cpu"
        raise ConfigurationError(msg)
    storage_request = mebibytes(pod.storage_request, f"{requests}.{_STORAGE}")
    storage_limit = mebibytes(pod.storage_limit, f"{limits}.{_STORAGE}")
    if storage_limit < MIN_STORAGE_MEBIBYTES:
        msg = f"{limits}.{_STORAGE} must be at least {MIN_STORAGE_MEBIBYTES}Mi for Spark's files and the logs"
        raise ConfigurationError(msg)
    if storage_request > storage_limit:
        msg = f"{requests}.{_STORAGE} must not exceed {limits}.{_STORAGE}"
        raise ConfigurationError(msg)
    return PodResources(
        cpu_request=request, cpu_limit=limit, heap_mebibytes=heap,
        overhead_mebibytes=overhead if pod.memory_overhead else _default_overhead(heap) + state_mebibytes,
        storage_request_mebibytes=storage_request, storage_limit_mebibytes=storage_limit,
        env=pod.env, defaults=defaults,
        template=read_pod_template(pod.pod_template, f"{path}.podTemplate", role=role),
    )  # fmt: skip


def _default_overhead(heap: int) -> int:
    return max(MIN_OVERHEAD_MEBIBYTES, int(heap * OVERHEAD_FACTOR))


def _pull_secrets(own: OperatorSpec) -> Iterator[str]:
    for index, secret in enumerate(own.image_pull_secrets):
        check_object_name(secret.name, f"spec.imagePullSecrets[{index}].name")
        yield secret.name
