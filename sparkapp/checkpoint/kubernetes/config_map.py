"""Requests for a ConfigMap of a job; refusals become errors of the project."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes.requests import Requests, answer_of
from sparkapp.checkpoint.kubernetes.user_access import DEFAULT_NAMESPACE, load_kubeconfig, namespace_of
from sparkapp.clients.deadline import Deadline
from sparkapp.model import names
from sparkapp.model.checkpoint.state_config_map import way_back
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointError,
    CheckpointMissing,
    CheckpointRefused,
    CheckpointStoreUnavailable,
    CheckpointTooLarge,
    CommandRefused,
    IncarnationMismatch,
)

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def core_api(context: str = "") -> Any:
    """A client with the pod's identity, or with the developer's kubeconfig outside a cluster.

    :param context: of the kubeconfig, also inside a cluster; empty for the current context.
    :raises CommandRefused: the kubeconfig cannot be read, or has no such context.
    """
    if not context:
        try:
            config.load_incluster_config()
            return client.CoreV1Api()
        except config.ConfigException:
            pass
    load_kubeconfig(context)
    return client.CoreV1Api()


def own_namespace(context: str = "") -> str:
    """The namespace of a command that names none: the pod's, or that of the kubeconfig's context.

    :param context: as in :func:`core_api`.
    """
    if not context and _POD_NAMESPACE.is_file():
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip()
    try:
        return namespace_of(context)
    except CommandRefused:
        return DEFAULT_NAMESPACE  # core_api() has the refusal


def owner_uid(metadata: Any) -> str:
    """UID of the KafkaSparkJob that owns an object; empty where none does.

    :param metadata: of the object, as the client returns it.
    """
    owners = metadata.owner_references or ()
    return next((str(owner.uid) for owner in owners if owner.kind == names.KIND), "")


class ConfigMap:
    """Reads and patches one ConfigMap of a job; retries while the API server does not answer.

    A name proves nothing: the ConfigMap may be of a deleted or of a later resource of the same name. So each read
    compares its owner, and each write names what was read (ADR 64).

    Without a deadline a request is tried once.

    :param uid: of the resource. A ConfigMap without an owner is accepted: a backup that a person has restored.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, uid: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._job = job
        self._job_uid = uid
        self.name = name
        self._requests = Requests(f"ConfigMap {name}")
        self._known = ""
        """UID of the ConfigMap that was last read."""

    @property
    def unanswered(self) -> bool:
        """Whether an attempt of the last request may have taken effect without an answer."""
        return self._requests.unanswered

    def read(self, deadline: Deadline | None) -> Any:
        """The ConfigMap.

        :raises CheckpointMissing: it does not exist. :raises CheckpointStoreUnavailable: no answer by the deadline.
        :raises IncarnationMismatch: another resource owns it.
        """
        body = self._requests.send(
            lambda timeout: self._api.read_namespaced_config_map(self.name, self._namespace, _request_timeout=timeout),
            deadline,
            refusal=self._refusal,
        )
        owner = owner_uid(body.metadata)
        if owner not in {"", self._job_uid}:
            msg = (
                f"ConfigMap {self.name} belongs to the KafkaSparkJob with UID {owner}, and this driver to that with UID"
                f" {self._job_uid}"
            )
            raise IncarnationMismatch(msg)
        self._known = str(body.metadata.uid)
        return body

    def patch(self, body: Mapping[str, Any], deadline: Deadline | None) -> Any:
        """Merges into the ConfigMap, and returns it.

        :param body: with the ``resourceVersion`` of a read, which no other object has.
        :raises CheckpointConflict: the version in the body is not the newest.
        :raises CheckpointRefused: and CheckpointTooLarge: nothing was written by the last request.
        """
        return self._requests.send(
            lambda timeout: self._api.patch_namespaced_config_map(
                self.name, self._namespace, body, _request_timeout=timeout
            ),
            deadline,
            refusal=self._refusal,
        )

    def merge(self, data: Mapping[str, str | None], deadline: Deadline | None) -> None:
        """Sets keys, and removes those with None, whatever version the ConfigMap has.

        The operator creates a lost ConfigMap again, so another ConfigMap of the resource gets the keys, too.

        :raises CheckpointError: see :meth:`read` and :meth:`patch`.
        """
        known = self._known or str(self.read(deadline).metadata.uid)
        try:
            self.patch({"metadata": {"uid": known}, "data": data}, deadline)
        except CheckpointConflict as error:
            # There is no version in it: the API server has tried often enough, and the next try may succeed.
            msg = f"ConfigMap {self.name}: too many others write it at the same time"
            raise CheckpointStoreUnavailable(msg) from error
        except (CheckpointMissing, CheckpointRefused):
            # The API server refuses the UID of an object that is gone as an invalid change.
            found = str(self.read(deadline).metadata.uid)
            if found == known:
                raise
            self.patch({"metadata": {"uid": found}, "data": data}, deadline)

    def _refusal(self, error: ApiException) -> CheckpointError:
        if error.status == 409:
            return CheckpointConflict(f"ConfigMap {self.name} was changed by another writer")
        if error.status == 404:
            return CheckpointMissing(
                f"ConfigMap {self.name} does not exist", remedy=way_back(self._namespace, self._job)
            )
        msg = f"ConfigMap {self.name}: the API server answered {error.status}: {answer_of(error)}"
        if error.status == 413 or (error.status == 422 and "too long" in answer_of(error).lower()):
            remedy = f"remove foreign keys from ConfigMap {self.name}; else use fewer partitions per job"
            return CheckpointTooLarge(msg, remedy=remedy)
        if error.status not in {401, 403}:
            return CheckpointRefused(msg)
        account = names.service_account(self._job)
        may = f"kubectl auth can-i patch configmap/{self.name} -n {self._namespace}"
        remedy = (
            f"check the driver's permission: {may} --as system:serviceaccount:{self._namespace}:{account}\n"
            f"The operator creates a missing Role or RoleBinding {account} before the next attempt."
            " If the permission exists, a policy or quota refuses the request"
        )
        return CheckpointRefused(msg, remedy=remedy)
