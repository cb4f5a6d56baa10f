"""The resource that an object belongs to: names, UIDs and owner references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkapp.model import names

API_VERSION = f"{names.GROUP}/{names.VERSION}"
ANNOTATION_GENERATION = "kafkaspark.io/generation"
"""The resource's generation that a standby driver was started for."""
ANNOTATION_STANDBY_PARALLELISM = "kafkaspark.io/standby-parallelism"
"""Of a standby driver: its parallelism, which an autoscaler changes without a new generation."""
ANNOTATION_CLAIM = "kafkaspark.io/attempt-uid"
"""UID of the attempt's ConfigMap, on the driver pod; by it the operator recognizes its pods."""
ANNOTATION_FAILURE = "kafkaspark.io/failure"
"""On the pod of a failed executor: the number of its failure in the attempt, so that it is counted once."""
ANNOTATION_REFUSED = "kafkaspark.io/standby-refused"
"""On the pod of a driver: the resource's generation for which no standby driver could be created next to it."""
ANNOTATION_ASKED = "kafkaspark.io/parallelism-asked-at"
"""On the pod of a driver: when it was last asked for another parallelism in place."""
ANNOTATION_METADATA = "kafkaspark.io/template-metadata"
"""On an executor: the labels and annotations of its template, as the driver's Role grants them."""
ANNOTATION_PAUSE = "kafkaspark.io/pause-reconciliation"
"""On the resource: with the value ``true`` the operator shows its state and changes nothing."""
ANNOTATION_REVISION = "kafkaspark.io/revision"
"""On the pod of a driver: the ConfigMap of its revision."""
ANNOTATION_MODULES = "kafkaspark.io/modules"
"""On the ConfigMap of a revision: the ConfigMap with the copy of its modules."""
ANNOTATION_SOURCE = "kafkaspark.io/modules-source"
"""On a copy of modules, and on the pod of a driver that mounts it: the user's ConfigMap."""
FINALIZER = f"{names.GROUP}/transactions"
"""Of a resource whose transactions no broker ends: its deletion waits until they are settled."""
ROLE_STATE = "state"
ROLE_REPORT = "report"
ROLE_CHECKPOINTS = "checkpoints"
ROLE_ATTEMPT = "attempt"
ROLE_SNAPSHOT = "snapshot"
ROLE_REVISION = "revision"
ROLE_MODULES = "modules"
ROLES_OF_ATTEMPTS = (ROLE_ATTEMPT, ROLE_MODULES, ROLE_REVISION)
"""Of the ConfigMaps that a live look lists."""


class JobKey(NamedTuple):
    """The key of a job in queue and cache."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class JobIdentity(NamedTuple):
    """An incarnation of a resource; a recreated resource has another UID."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> JobKey:
        return JobKey(self.namespace, self.name)

    def owner_reference(self) -> dict[str, Any]:
        """Lets Kubernetes collect the job's objects, even an object that is created after the job is gone."""
        return {
            "apiVersion": API_VERSION,
            "kind": names.KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def owner_uid(body: Mapping[str, Any]) -> str:
    """UID of the KafkaSparkJob that owns the object; empty where there is none."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == names.KIND:
            return str(owner.get("uid", ""))
    return ""


def owned_by_deleted_job(body: Mapping[str, Any], job: JobIdentity) -> bool:
    """True where the object belongs to a deleted resource of the same name: Kubernetes is about to collect it."""
    return owner_uid(body) not in {"", job.uid}


def metadata(
    job: JobIdentity,
    name: str,
    *,
    attempt: int | None = None,
    role: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Metadata of an object of the job, with labels and owner."""
    result: dict[str, Any] = {
        "name": name,
        "namespace": job.namespace,
        "labels": names.labels(job.name, attempt=attempt, role=role),
        "ownerReferences": [job.owner_reference()],
    }
    if annotations:
        result["annotations"] = dict(annotations)
    return result
