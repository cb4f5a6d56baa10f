"""Common parts of driver and executor pods: security, volumes, environment and the size of the container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.workload import DesiredJob, PodResources
from sparkapp.model import names
from sparkapp.model.job.client.config import PASSWORD_FILE

USER = 10001
"""The image's user; no root, in any pod."""
OVERHEAD_FACTOR = 0.4
"""Memory outside the Java heap, as a share of it, for Python and librdkafka. Spark's share for Python."""
MIN_OVERHEAD_MEBIBYTES = 384

_CREDENTIALS_MODE = 0o440


def pod_security_context() -> dict[str, Any]:
    """The pod's share of the restricted Pod Security Standard."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security_context() -> dict[str, Any]:
    """The container's share of the restricted Pod Security Standard, and a read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }


def memory_mebibytes(pod: PodResources) -> int:
    """The container's memory: Java heap and overhead."""
    return pod.heap_mebibytes + max(MIN_OVERHEAD_MEBIBYTES, int(pod.heap_mebibytes * OVERHEAD_FACTOR))


def volumes_and_mounts(desired: DesiredJob) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Scratch space, code, operators' state and secrets: the same places in driver and executors."""
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}, {"name": "work", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of the pod
        {"name": "work", "mountPath": names.WORK_DIRECTORY},
    ]
    if desired.spec.transform.config_map:
        volumes.append({"name": "code", "configMap": {"name": desired.spec.transform.config_map}})
        mounts.append({"name": "code", "mountPath": names.CODE_DIRECTORY, "readOnly": True})
    if desired.spec.state_claim:
        volumes.append({"name": "state", "persistentVolumeClaim": {"claimName": desired.spec.state_claim}})
        mounts.append({"name": "state", "mountPath": names.STATE_DIRECTORY})
    authentication = desired.spec.kafka.authentication
    if authentication is not None:
        volumes.append(
            {
                "name": "credentials",
                "secret": {
                    "secretName": authentication.secret_name,
                    "defaultMode": _CREDENTIALS_MODE,
                    "items": [{"key": authentication.secret_key, "path": PASSWORD_FILE}],
                },
            }
        )
        mounts.append({"name": "credentials", "mountPath": names.CREDENTIALS_DIRECTORY, "readOnly": True})
    registry = desired.spec.source.schema_registry
    if registry is not None and registry.files:
        sources = [
            {"secret": {"name": secret.name, "items": [{"key": secret.key, "path": file}]}}
            for secret, file in registry.files
        ]
        volumes.append({"name": "schema-registry", "projected": {"defaultMode": _CREDENTIALS_MODE, "sources": sources}})
        mounts.append({"name": "schema-registry", "mountPath": registry.directory, "readOnly": True})
    return volumes, mounts


def environment(pod: PodResources) -> list[Mapping[str, Any]]:
    """The user's variables, after those that a read-only root file system needs."""
    return [{"name": "HOME", "value": names.WORK_DIRECTORY}, *pod.env]
