"""``spec.driver`` and ``spec.executor``: the pods of a job, as the resource describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kafkasparkjob_operator.workload.environment import environment_from
from sparkapp.model.encoding.schema import (
    Described,
    ObjectDefault,
    Quantity,
    Rule,
    at,
    held_by,
    items_of,
    part,
    text_of,
)
from sparkapp.model.job.forms import OBJECT, OBJECT_KEY
from sparkapp.model.job.spark_settings import STATE_MEBIBYTES

MIN_HEAP_MEBIBYTES = 512
"""Spark refuses heaps under 450 MiB, and the JVM counts a little less than its setting."""
MIN_STORAGE_MEBIBYTES = 256
"""The kubelet keeps 50 MiB of a container's log by default, and Spark unpacks its native libraries."""


@part
class KeyReference:
    """A key of a Secret or a ConfigMap, as a pod writes it."""

    name: str = at("Name of the object.", form=OBJECT)
    key: str = at("Key in the object.", form=OBJECT_KEY)


@part
class VariableSource:
    """``valueFrom`` of an environment variable."""

    secret_key_ref: KeyReference | None = at("Key of an object in the job's namespace.", default=None)
    config_map_key_ref: KeyReference | None = at("Key of an object in the job's namespace.", default=None)


@part
class Variable:
    """An environment variable. The operator copies it into the pod as it is."""

    name: str = at("Name of the variable.", form=text_of(1, 128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"))
    value: str = at("Value of the variable.", default="", form=text_of(0, 4096))
    value_from: VariableSource | None = at("Key of a Secret or a ConfigMap that holds the value.", default=None)


_IS_MEMORY = "string(self).matches('^[0-9]{1,12}([.][0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?$')"
_AS_KUBERNETES = "must be a quantity as Kubernetes writes it, for instance 512Mi or 2Gi"
_CPU = held_by(
    Rule(
        "string(self).matches('^[0-9]{1,6}([.][0-9]{1,3})?m?$')"
        " && quantity(string(self)).compareTo(quantity('1m')) >= 0",
        "cpu must be a quantity as Kubernetes writes it, at least 1m, for instance 500m or 2",
    )
)
_IS_STORAGE = Rule(_IS_MEMORY, f"ephemeral-storage {_AS_KUBERNETES}")


def _at_least(mebibytes: int, message: str) -> Rule:
    """Another rule refuses a value that is no quantity."""
    return Rule(f"!{_IS_MEMORY} || quantity(string(self)).compareTo(quantity('{mebibytes}Mi')) >= 0", message)


def _is_memory(name: str) -> Rule:
    return Rule(_IS_MEMORY, f"{name} {_AS_KUBERNETES}: Spark's 512m and 2g are 512Mi and 2Gi")


@part
class PodFields:
    """``spec.driver``, and the same fields of ``spec.executor``."""

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "resources": Described(
            "CPU and ephemeral storage of the container. Its memory is the sum of memory and memoryOverhead.",
            ObjectDefault.SPELLED,
        ),
        "resources.requests": Described("CPU and ephemeral storage that the scheduler reserves."),
        "resources.limits": Described("CPU and ephemeral storage that the container cannot exceed."),
    }

    cpu_request: Quantity = at(
        "Quantity of CPU, for instance 500m or 2. By default executor.cores for an executor and 100m"
        " for the driver, at most limits.cpu.",
        default=Quantity(""),
        path="resources.requests.cpu",
        form=_CPU,
    )
    storage_request: Quantity = at(
        "Quantity of scratch space and logs, for instance 1Gi.",
        default=Quantity("256Mi"),
        path="resources.requests.ephemeral-storage",
        form=held_by(_IS_STORAGE),
    )
    cpu_limit: Quantity = at(
        "Quantity of CPU, for instance 500m or 2. By default no limit, which makes a start quick.",
        default=Quantity(""),
        path="resources.limits.cpu",
        form=_CPU,
    )
    storage_limit: Quantity = at(
        "Quantity of scratch space and logs, and the size limit of each emptyDir, for instance 20Gi."
        " The kubelet evicts a pod that uses more, and the job restarts.",
        default=Quantity("10Gi"),
        path="resources.limits.ephemeral-storage",
        form=held_by(
            _IS_STORAGE,
            _at_least(MIN_STORAGE_MEBIBYTES, f"ephemeral-storage must be at least {MIN_STORAGE_MEBIBYTES}Mi"),
        ),
    )
    memory: Quantity = at(
        "Java heap as a quantity of memory, for instance 512Mi or 2Gi.",
        default=Quantity("1Gi"),
        form=held_by(
            _is_memory("memory"),
            _at_least(
                MIN_HEAP_MEBIBYTES,
                f"memory must be at least {MIN_HEAP_MEBIBYTES}Mi: Spark does not start with a smaller heap",
            ),
        ),
    )
    memory_overhead: Quantity = at(
        "Memory of the container outside the Java heap, for Python and librdkafka, for instance 512Mi. By default"
        f" 40 % of memory, at least 384Mi, and {STATE_MEBIBYTES}Mi more in executors that keep state.",
        default=Quantity(""),
        form=held_by(_is_memory("memoryOverhead")),
    )
    env: tuple[Mapping[str, Any], ...] = at(
        "Environment variables of the container.",
        default=(),
        form=items_of(0, 64, keys=("name",)),
        kind=tuple[Variable, ...],
        reader=environment_from,
    )
    pod_template: Mapping[str, Any] = at(
        "Template of core/v1 (metadata with labels and annotations, spec), which is merged"
        " strategically onto the operator's pod. The container has the name driver or executor."
        " ConfigValid names a field that a template cannot set, with the reason.",
        default_factory=dict,
    )


@part
class ExecutorFields:
    """``spec.executor``."""

    instances: int = at(
        "Number of executors. By default as many as the parallelism needs, ceil(parallelism / cores).",
        default=0,
        low=1,
        high=1024,
    )
    cores: int = at("Number of subtasks that an executor runs at the same time.", default=1, low=1, high=64)
    pods: PodFields = at(default_factory=PodFields, path=".")
