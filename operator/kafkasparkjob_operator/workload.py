"""What a resource asks for: the job itself and what it runs on, read from ``spec`` with every default filled in.

Repeats the CRD's rules, for the CRD in the cluster may be older than the operator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.fields import Fields
from sparkapp.model.job import JobSpec
from sparkapp.model.job_resource import spec_from_resource
from sparkapp.model.spark_settings import is_protocols

DENIED_SPARK_PREFIXES = (
    "spark.kubernetes.", "spark.submit.", "spark.app.", "spark.jars", "spark.files", "spark.archives",
)  # fmt: skip
DENIED_SPARK_SETTINGS = frozenset(
    {
        "spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.driver.port",
        "spark.driver.blockManager.port", "spark.driver.memory", "spark.driver.cores", "spark.executor.instances",
        "spark.executor.cores", "spark.executor.memory", "spark.task.cpus",
    }
)  # fmt: skip
"""Spark settings that the operator decides, or that would fetch code or mount volumes."""

MIN_HEAP_MEBIBYTES = 512
"""Spark refuses heaps under 450 MiB; the JVM counts a little less than it was given."""

_SECRET_WORDS = ("password", "secret", "token")
_RESERVED_ENV = ("KAFKASPARK_", "SPARK_", "PYSPARK_", "KUBERNETES_")
_FREE_ENV = frozenset({"KAFKASPARK_LOG_LEVEL", "KAFKASPARK_FAULT"})
"""What the driver reads and the operator leaves to the user: how much it logs, and faults on order for tests."""
_MEMORY = re.compile(r"[1-9][0-9]{0,9}[mg]")
_QUANTITY = re.compile(r"[0-9]+m|[0-9]+(\.[0-9]{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """One kind of pod: driver or executor.

    :param cores: an executor's task slots; the driver's CPU limit, 0 for none.
    :param core_request: CPU request as a Kubernetes quantity.
    :param memory: Java heap as Spark writes it, ``512m`` or ``2g``.
    :param env: environment variables as the pod spec writes them.
    """

    cores: int
    core_request: str
    memory: str
    env: tuple[Mapping[str, Any], ...] = ()

    @property
    def heap_mebibytes(self) -> int:
        return _mebibytes(self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the job runs on."""

    image: str
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    driver: PodResources
    executor: PodResources
    executor_instances: int
    spark_conf: Mapping[str, str] = field(default_factory=dict)


class SuccessorPolicy(StrEnum):
    """``spec.restartPolicy.successor``: when the next attempt's pods are made."""

    AFTER_STOP = "AfterStop"
    """When every pod of the former one is gone."""
    BEFORE_STOP = "BeforeStop"
    """Where a running attempt has to stop for a change of the resource: before it is asked to."""
    STANDBY = "Standby"
    """As before, and one always stands by, for the attempt that dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """What follows a failure or a change; ``max_consecutive_failures`` 0 means without limit."""

    initial_seconds: int = 1
    max_seconds: int = 300
    multiplier: int = 2
    max_consecutive_failures: int = 0
    reset_after_seconds: int = 600
    successor: SuccessorPolicy = SuccessorPolicy.AFTER_STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A resource's spec, resolved."""

    spec: JobSpec
    workload: Workload
    restart_nonce: int = 0
    suspend: bool = False
    restart_policy: RestartPolicy = field(default_factory=RestartPolicy)

    def same_application(self, other: Wanted) -> bool:
        """True where a running attempt of one is a running attempt of the other: nothing asks for a restart."""
        return self._application() == other._application()

    def _application(self) -> tuple[object, ...]:
        # The checkpoint to go back to has no effect of its own: a change of redeployNonce has.
        spec = replace(self.spec, restore=replace(self.spec.restore, checkpoint=0))
        return spec, self.workload, self.restart_nonce


def wanted_from_resource(spec: Mapping[str, Any], *, namespace: str, name: str) -> Wanted:
    """Reads and checks ``spec``.

    Called by the state machine for the resource as it is now and for the spec that an attempt was started with;
    both are read by the same release, so that an upgrade of the operator is no reason to restart anything.

    :raises ConfigurationError: naming the field and what to type instead.
    """
    root = Fields(spec, "spec")
    job = spec_from_resource(spec, namespace=namespace, name=name)
    executor = _pod_resources(root.child("executor"), cores=1)
    instances = root.child("executor").integer("instances", 0, low=1)
    return Wanted(
        spec=job,
        workload=Workload(
            image=root.string("image"),
            image_pull_policy=root.string("imagePullPolicy", "IfNotPresent"),
            image_pull_secrets=_pull_secrets(root),
            driver=_pod_resources(root.child("driver"), cores=0),
            executor=executor,
            executor_instances=instances or math.ceil(job.parallelism / executor.cores),
            spark_conf=_spark_conf(root),
        ),
        restart_nonce=root.integer("restartNonce", 0),
        suspend=root.boolean("suspend", False),
        restart_policy=_restart_policy(root.child("restartPolicy")),
    )


def restart_policy_of(spec: Mapping[str, Any]) -> RestartPolicy:
    """The restart policy alone, for a spec that is invalid elsewhere; defaults where it cannot be read."""
    try:
        return _restart_policy(Fields(spec, "spec").child("restartPolicy"))
    except ConfigurationError:
        return RestartPolicy()


def _restart_policy(policy: Fields) -> RestartPolicy:
    backoff = policy.child("backoff")
    return RestartPolicy(
        initial_seconds=backoff.integer("initialSeconds", 1, low=0),
        max_seconds=backoff.integer("maxSeconds", 300, low=1),
        multiplier=backoff.integer("multiplier", 2, low=1),
        max_consecutive_failures=policy.integer("maxConsecutiveFailures", 0, low=0),
        reset_after_seconds=policy.integer("resetAfterSeconds", 600, low=1),
        successor=policy.choice("successor", SuccessorPolicy, SuccessorPolicy.AFTER_STOP),
    )


def _pod_resources(fields: Fields, *, cores: int) -> PodResources:
    memory = fields.string("memory", "1g")
    if not _MEMORY.fullmatch(memory):
        msg = f"{fields.path}.memory must be a Java heap like 512m or 2g, not {memory!r}"
        raise ConfigurationError(msg)
    if _mebibytes(memory) < MIN_HEAP_MEBIBYTES:
        msg = f"{fields.path}.memory must be at least {MIN_HEAP_MEBIBYTES}m for Spark to start, not {memory!r}"
        raise ConfigurationError(msg)
    core_request = fields.string("coreRequest", "100m")
    if not _QUANTITY.fullmatch(core_request):
        msg = f"{fields.path}.coreRequest must be a CPU quantity like 500m or 2, not {core_request!r}"
        raise ConfigurationError(msg)
    env = fields.objects("env")
    for variable in env:
        name = variable.get("name")
        if not isinstance(name, str) or _reserved(name):
            msg = f"{fields.path}.env: {name!r} is set by the operator: choose another name"
            raise ConfigurationError(msg)
    return PodResources(
        cores=fields.integer("cores", cores, low=1), core_request=core_request, memory=memory, env=tuple(env)
    )


def _reserved(name: str) -> bool:
    return name == "PYTHONPATH" or (name.startswith(_RESERVED_ENV) and name not in _FREE_ENV)


def _mebibytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


def _pull_secrets(root: Fields) -> tuple[str, ...]:
    return tuple(Fields(item, "spec.imagePullSecrets").string("name") for item in root.objects("imagePullSecrets"))


def _spark_conf(root: Fields) -> dict[str, str]:
    settings = root.string_map("sparkConf")
    for name in settings:
        if not name.startswith("spark.") or name.startswith(DENIED_SPARK_PREFIXES) or name in DENIED_SPARK_SETTINGS:
            msg = f"spec.sparkConf: {name} is the operator's: use driver, executor, parallelism or another field"
            raise ConfigurationError(msg)
        if is_protocols(name):
            msg = (
                f"spec.sparkConf: {name} is the protocol's: Spark could run a stage or a task twice, or replace the"
                " Python workers; remove it"
            )
            raise ConfigurationError(msg)
        if any(word in name for word in _SECRET_WORDS):
            msg = f"spec.sparkConf: {name}: credentials do not belong here, use env with valueFrom.secretKeyRef"
            raise ConfigurationError(msg)
    return settings
