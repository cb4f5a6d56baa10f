"""The operator's port to Kubernetes, so that its logic is tested without a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from kafkasparkjob_operator.identity import JobKey
from sparkapp.model import names
from sparkapp.model.errors import KafkaSparkJobError

Body = Mapping[str, Any]


class ClusterError(KafkaSparkJobError):
    """A request to Kubernetes failed; the work queue retries.

    :param status: HTTP status; 0 where no answer came.
    """

    reason = "KubernetesError"
    default_remedy = "check the API server and the operator's permissions if the error persists"

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ObjectConflict(ClusterError):
    """The object has changed since it was read; look again."""

    reason = "Conflict"


class ObjectExists(ClusterError):
    """An object of that name exists already."""

    reason = "AlreadyExists"


class ObjectRefused(ClusterError):
    """The API server understood and refused: a quota, a policy, a webhook, a missing permission, an invalid object."""

    reason = "Refused"


class NotLeading(ClusterError):
    """Leadership was lost; nothing may be written."""

    reason = "NotLeading"


class Cluster(Protocol):
    """Every call is a request with a deadline. A name that no object can have is not sent: nothing of that name exists.

    :raises ClusterError: and its subclasses, from every call.
    """

    async def get_job(self, key: JobKey) -> Body | None: ...

    async def list_namespaces(self, selector: str) -> Sequence[str]:
        """Names of the namespaces with such labels."""
        ...

    def list_jobs(self, namespace: str | None) -> AsyncIterator[Sequence[Body]]:
        """The jobs of a namespace, or of all, in pages, so that a list of any length fits into memory."""
        ...

    async def list_pods(self, key: JobKey) -> Sequence[Body]: ...

    async def list_attempts(self, key: JobKey) -> Sequence[Body]:
        """The ConfigMaps with the labels of the job's attempts, revisions and modules, without their data."""
        ...

    async def list_snapshots(self, key: JobKey) -> Sequence[Body]:
        """The ConfigMaps with the labels of snapshots of jobs of that name, without their data."""
        ...

    def list_objects(self, kind: str, namespace: str | None) -> AsyncIterator[Sequence[Body]]:
        """Metadata of the objects of jobs of that kind, in a namespace or in all, in pages. Without their data."""
        ...

    async def list_quotas(self, namespace: str) -> Sequence[Body]:
        """The ResourceQuotas of a namespace."""
        ...

    async def list_versions(self, namespace: str) -> Mapping[str, str]:
        """Resource versions of the namespace's ConfigMaps that belong to no job, by name.

        Their contents are not sent, and the answer is what the API server has in memory, milliseconds old.
        """
        ...

    async def get(self, kind: str, namespace: str, name: str) -> Body | None: ...

    async def create(self, manifest: Body) -> Body:
        """:raises ObjectExists: :raises ObjectRefused: as their names say."""
        ...

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Deletes, with the object's own grace period unless ``grace_seconds`` is given.

        A missing object, or an object with another UID, is no error.
        """
        ...

    async def patch_status(
        self, key: JobKey, patch: Body, *, resource_version: str, kind: str = names.KIND
    ) -> Body | None:
        """Merges into the status; None where the resource is gone.

        :param key: of a resource of the kind.
        :raises ObjectConflict: the resource is no longer at that version.
        """
        ...

    async def set_finalizers(self, key: JobKey, finalizers: Sequence[str], *, resource_version: str) -> Body | None:
        """Replaces the finalizers of the resource; None where the resource is gone.

        :raises ObjectConflict: the resource is no longer at that version.
        """
        ...

    async def delete_job_version(self, key: JobKey, *, uid: str, resource_version: str) -> None:
        """Deletes the resource; a missing resource is no error.

        :raises ObjectConflict: the resource has another UID, or is no longer at that version.
        """
        ...

    async def annotate_pod(self, key: JobKey, pod: str, annotations: Mapping[str, str], *, uid: str) -> bool:
        """Merges into the annotations of a pod of the job's namespace; False where it is gone.

        :raises ObjectConflict: the pod of that name has another UID.
        """
        ...

    async def annotate_config_map(
        self, namespace: str, name: str, annotations: Mapping[str, str | None], *, uid: str
    ) -> Body | None:
        """Merges into the annotations of a ConfigMap, and removes those with None; None where it is gone.

        :raises ObjectConflict: the ConfigMap of that name has another UID.
        """
        ...

    async def apply(self, manifest: Body) -> Body:
        """Server-side apply: restores every field of the manifest after any change, and no other field."""
        ...

    async def replace(self, manifest: Body) -> Body:
        """:raises ObjectConflict: the object is no longer at the manifest's version."""
        ...
