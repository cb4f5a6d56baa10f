"""The job that a resource asks for, read from ``spec`` with every default filled in.

Repeats the CRD's rules, because the CRD in the cluster may be older than the operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kafkasparkjob_operator.workload.environment import INSTEAD_OF_A_VALUE, check_variable
from kafkasparkjob_operator.workload.job_settings import NO_SETTINGS, JobSettings, PodUser
from kafkasparkjob_operator.workload.pod_template import NO_TEMPLATE, PodTemplate, read_pod_template
from sparkapp.model import names
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.quantity import mebibytes, millicores
from sparkapp.model.encoding.resource import at, read_part
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.secret_names import carries_secret, names_secret
from sparkapp.model.job.rules.object_names import check_object_name
from sparkapp.model.job.spark_settings import refusal_of
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.spec_from_resource import spec_from_resource

DENIED_SPARK_PREFIXES = (
    "spark.kubernetes.", "spark.submit.", "spark.app.", "spark.jars", "spark.files", "spark.archives",
)  # fmt: skip
DENIED_SPARK_SETTINGS = frozenset(
    {
        "spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.driver.port",
        "spark.driver.blockManager.port", "spark.driver.memory", "spark.driver.cores", "spark.executor.instances",
        "spark.executor.cores", "spark.executor.memory", "spark.task.cpus", "spark.driver.memoryOverhead",
        "spark.driver.memoryOverheadFactor", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor",
    }
)  # fmt: skip
"""Spark settings that the operator decides, or that fetch code or mount volumes."""

MIN_HEAP_MEBIBYTES = 512
"""Spark refuses heaps under 450 MiB, and the JVM counts a little less than its setting."""
OVERHEAD_FACTOR = 0.4
"""Memory outside the Java heap, as a share of it, for Python and librdkafka. Spark's share for Python."""
MIN_OVERHEAD_MEBIBYTES = 384
MIN_STORAGE_MEBIBYTES = 256
"""The kubelet keeps 50 MiB of a container's log by default, and Spark unpacks its native libraries."""
_STORAGE = "ephemeral-storage"


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


class PullPolicy(StrEnum):
    """The kubelet's, as a pod writes it."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class SuccessorPolicy(StrEnum):
    """``spec.restartPolicy.successor``: when the next attempt's pods are made."""

    AFTER_STOP = "AfterStop"
    """When every pod of the previous attempt is gone."""
    BEFORE_STOP = "BeforeStop"
    """Before a running attempt is stopped for a change of the resource."""
    STANDBY = "Standby"
    """As BeforeStop, and a standby driver is always ready for an attempt that fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """The reaction to a failure or a change; ``max_consecutive_failures`` 0 means no limit."""

    initial_seconds: int = field(default=1, metadata=at("backoff.initialSeconds", low=0))
    max_seconds: int = field(default=300, metadata=at("backoff.maxSeconds", low=1))
    multiplier: int = field(default=2, metadata=at("backoff.multiplier", low=1))
    max_consecutive_failures: int = field(default=0, metadata=at(low=0))
    reset_after_seconds: int = field(default=600, metadata=at(low=1))
    successor: SuccessorPolicy = SuccessorPolicy.AFTER_STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredJob:
    """A resource's spec, resolved."""

    spec: JobSpec
    workload: Workload
    restart_nonce: int = 0
    suspend: bool = False
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)

    def same_application(self, other: DesiredJob) -> bool:
        """True where an attempt of this job also runs the other job, so that no restart is needed.

        An attempt with a default image also runs a job that has no image: the operator's upgrade restarts nothing.
        """
        both_default = self.workload.default_image and other.workload.default_image
        return self._application(both_default) == other._application(both_default)

    def _application(self, any_image: bool) -> tuple[object, ...]:
        # The checkpoint to restore has no effect by itself: a change of the nonce has.
        spec = replace(self.spec, restore=replace(self.spec.restore, checkpoint=0))
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
    root = Fields(spec, "spec")
    job = spec_from_resource(spec, namespace=namespace, name=name)
    instances = root.child("executor").integer("instances", 0, low=1)
    cores = root.child("executor").integer("cores", 1, low=1)
    image = root.string("image", "")
    return DesiredJob(
        spec=job,
        workload=Workload(
            image=image or _required(settings.default_image),
            default_image=not image,
            image_pull_policy=root.choice("imagePullPolicy", PullPolicy, PullPolicy.IF_NOT_PRESENT).value,
            image_pull_secrets=tuple(dict.fromkeys((*settings.image_pull_secrets, *_pull_secrets(root)))),
            driver=_pod_resources(root.child("driver"), names.ROLE_DRIVER, settings.driver),
            executor=_pod_resources(root.child("executor"), names.ROLE_EXECUTOR, settings.executor),
            executor_instances=instances or math.ceil(job.parallelism / cores),
            executor_cores=cores,
            user=settings.user,
            spark_conf=_spark_conf(root),
        ),
        restart_nonce=root.integer("restartNonce", 0),
        suspend=root.boolean("suspend", False),
        restart_policy=read_part(RestartPolicy, root.child("restartPolicy")),
    )


def _required(default_image: str) -> str:
    if not default_image:
        msg = "spec.image is missing: the operator has no default job image"
        raise ConfigurationError(msg, remedy="set spec.image")
    return default_image


def restart_policy_of(spec: Mapping[str, Any]) -> RestartPolicy:
    """The restart policy alone, for a spec that is invalid elsewhere; defaults where it cannot be read."""
    try:
        return read_part(RestartPolicy, Fields(spec, "spec").child("restartPolicy"))
    except ConfigurationError:
        return RestartPolicy()


def _pod_resources(fields: Fields, role: str, defaults: PodTemplate) -> PodResources:
    heap = mebibytes(fields.quantity("memory", "1Gi"), f"{fields.path}.memory")
    if heap < MIN_HEAP_MEBIBYTES:
        msg = f"{fields.path}.memory must be at least {MIN_HEAP_MEBIBYTES}Mi for Spark to start"
        raise ConfigurationError(msg)
    named = fields.quantity("memoryOverhead", "")
    overhead = mebibytes(named, f"{fields.path}.memoryOverhead") if named else _default_overhead(heap)
    resources = fields.child("resources")
    requests, limits = resources.child("requests"), resources.child("limits")
    request = millicores(requests.quantity("cpu", "100m"), f"{requests.path}.cpu")
    named = limits.quantity("cpu", "")
    limit = millicores(named, f"{limits.path}.cpu") if named else 0
    if limit and request > limit:
        msg = f"{requests.path}.cpu must not exceed {limits.path}.cpu"
        raise ConfigurationError(msg)
    storage_request = mebibytes(requests.quantity(_STORAGE, "256Mi"), f"{requests.path}.{_STORAGE}")
    storage_limit = mebibytes(limits.quantity(_STORAGE, "10Gi"), f"{limits.path}.{_STORAGE}")
    if storage_limit < MIN_STORAGE_MEBIBYTES:
        msg = f"{limits.path}.{_STORAGE} must be at least {MIN_STORAGE_MEBIBYTES}Mi for Spark's files and the logs"
        raise ConfigurationError(msg)
    if storage_request > storage_limit:
        msg = f"{requests.path}.{_STORAGE} must not exceed {limits.path}.{_STORAGE}"
        raise ConfigurationError(msg)
    return PodResources(
        cpu_request=request, cpu_limit=limit, heap_mebibytes=heap, overhead_mebibytes=overhead,
        storage_request_mebibytes=storage_request, storage_limit_mebibytes=storage_limit,
        env=_environment(fields), defaults=defaults,
        template=read_pod_template(fields.mapping("podTemplate"), f"{fields.path}.podTemplate", role=role),
    )  # fmt: skip


def _default_overhead(heap: int) -> int:
    return max(MIN_OVERHEAD_MEBIBYTES, int(heap * OVERHEAD_FACTOR))


def _environment(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    env = fields.objects("env")
    for index, variable in enumerate(env):
        name = Fields(variable, f"{fields.path}.env[{index}]").string("name")
        check_variable(name, variable, f"{fields.path}.env")
    return tuple(env)


def _pull_secrets(root: Fields) -> tuple[str, ...]:
    items = root.objects("imagePullSecrets")
    found = [Fields(item, f"spec.imagePullSecrets[{index}]").string("name") for index, item in enumerate(items)]
    for index, name in enumerate(found):
        check_object_name(name, f"spec.imagePullSecrets[{index}].name")
    return tuple(found)


def _spark_conf(root: Fields) -> dict[str, str]:
    settings = root.string_map("sparkConf")
    for name in settings:
        if not name.startswith("spark.") or name.startswith(DENIED_SPARK_PREFIXES) or name in DENIED_SPARK_SETTINGS:
            msg = f"spec.sparkConf: the operator sets {name}: use driver, executor, parallelism or another field"
            raise ConfigurationError(msg)
        reason = refusal_of(name)
        if reason:
            msg = f"spec.sparkConf: remove {name}: {reason}"
            raise ConfigurationError(msg)
        if names_secret(name) or carries_secret(settings[name]):
            msg = f"spec.sparkConf: {name} looks like a credential"
            raise ConfigurationError(msg, remedy=INSTEAD_OF_A_VALUE)
    return settings
