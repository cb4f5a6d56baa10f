"""Common parts of driver and executor pods: security, volumes, environment and the size of the container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.workload import DesiredJob, PodResources
from sparkapp.model import names
from sparkapp.model.job.access.mounts import TOKEN_FILE, SecretFolder
from sparkapp.model.job.access.mounts import USER as USER_FOLDER

SPARK_DIRECTORY = f"{names.WORK_DIRECTORY}/spark"
"""Spark's scratch space."""
CODE_VOLUME = "code"
"""The volume with the copy of the user's modules."""

_CREDENTIALS_MODE = 0o440


def pod_security_context(desired: DesiredJob) -> dict[str, Any]:
    """The pod's share of the restricted Pod Security Standard. No pod runs as root, with any user."""
    return {"runAsNonRoot": True, **desired.workload.user, "seccompProfile": {"type": "RuntimeDefault"}}


def container_security_context() -> dict[str, Any]:
    """The container's share of the restricted Pod Security Standard, and a read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }


def volumes_and_mounts(
    job: JobIdentity, desired: DesiredJob, *, attempt: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Scratch space, code, operators' state and secrets: the same places in driver and executors."""
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}, {"name": "work", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of the pod
        {"name": "work", "mountPath": names.WORK_DIRECTORY},
    ]
    secret = SecretFolder("secret", names.spark_secret(job.name, job.uid, attempt), ())
    volumes.append(_secret_volume("spark", secret))
    mounts.append({"name": "spark-secret", "mountPath": names.SPARK_SECRET_DIRECTORY, "readOnly": True})
    if desired.workload.modules:
        volumes.append({"name": CODE_VOLUME, "configMap": {"name": desired.workload.modules}})
        mounts.append({"name": CODE_VOLUME, "mountPath": names.CODE_DIRECTORY, "readOnly": True})
    if desired.spec.state_claim:
        volumes.append({"name": "state", "persistentVolumeClaim": {"claimName": desired.spec.state_claim}})
        mounts.append({"name": "state", "mountPath": names.STATE_DIRECTORY})
    for volume, folder in _kafka_volumes(desired):
        volumes.append(volume)
        path = f"{names.CREDENTIALS_DIRECTORY}/{folder}"
        mounts.append({"name": volume["name"], "mountPath": path, "readOnly": True})
    for prefix, registry in (
        ("schema-registry", desired.spec.source.schema_registry),
        ("sink-registry", desired.spec.sink.schema_registry),
    ):
        for secret in () if registry is None else registry.folders:
            volume = _secret_volume(prefix, secret)
            volumes.append(volume)
            path = f"{registry.directory}/{secret.folder}" if registry is not None else ""
            mounts.append({"name": volume["name"], "mountPath": path, "readOnly": True})
    return volumes, mounts


def _kafka_volumes(desired: DesiredJob) -> Iterator[tuple[dict[str, Any], str]]:
    """Volumes of the job's clusters, each with its folder below :data:`names.CREDENTIALS_DIRECTORY`."""
    for cluster in desired.spec.clusters:
        for folder in cluster.folders:
            yield _secret_volume("kafka", folder), folder.folder
        token = cluster.authentication and cluster.authentication.service_account_token
        if token:
            source = {"path": TOKEN_FILE, "audience": token.audience, "expirationSeconds": token.expiration_seconds}
            projected = {"defaultMode": _CREDENTIALS_MODE, "sources": [{"serviceAccountToken": source}]}
            own = f"{cluster.folder_prefix}{USER_FOLDER}"
            yield {"name": f"kafka-{own}", "projected": projected}, own


def _secret_volume(prefix: str, folder: SecretFolder) -> dict[str, Any]:
    secret: dict[str, Any] = {"secretName": folder.secret_name, "defaultMode": _CREDENTIALS_MODE}
    if folder.items:
        secret["items"] = [{"key": key, "path": path} for key, path in folder.items]
    return {"name": f"{prefix}-{folder.folder}", "secret": secret}


def storage_resources(pod: PodResources) -> dict[str, dict[str, str]]:
    """Request and limit of ephemeral storage, as a container writes them."""
    return {
        "requests": {"ephemeral-storage": f"{pod.storage_request_mebibytes}Mi"},
        "limits": {"ephemeral-storage": f"{pod.storage_limit_mebibytes}Mi"},
    }


def with_size_limits(manifest: Mapping[str, Any], pod: PodResources) -> dict[str, Any]:
    """The pod with a size limit on each ``emptyDir`` that has none: the limit of the pod's ephemeral storage.

    Called after the merge of the user's template, which may add volumes.
    """
    limit = {"sizeLimit": f"{pod.storage_limit_mebibytes}Mi"}
    volumes = [
        volume | {"emptyDir": limit | volume["emptyDir"]} if "emptyDir" in volume else volume
        for volume in manifest["spec"]["volumes"]
    ]
    return {**manifest, "spec": {**manifest["spec"], "volumes": volumes}}


def environment(desired: DesiredJob) -> list[dict[str, Any]]:
    """Variables that a read-only root file system needs, and the access key of a store of state from its Secret."""
    store = desired.spec.state_s3
    found: list[dict[str, Any]] = [{"name": "HOME", "value": names.WORK_DIRECTORY}]
    if store is not None and store.credentials is not None:
        found += [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": store.credentials.secret_name, "key": key}}}
            for name, key in store.credentials.variables.items()
        ]
    return found
