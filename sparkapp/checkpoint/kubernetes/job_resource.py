"""The job's resource and Secrets, for the commands of people (``sparkapp checkpoint``, ``sparkapp txn``)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes.config_map import core_api
from sparkapp.checkpoint.kubernetes.requests import REQUEST_TIMEOUT
from sparkapp.model import names
from sparkapp.model.errors import CheckpointConflict, CheckpointError, CheckpointStoreUnavailable, CommandRefused


def read_resource(namespace: str, job: str) -> dict[str, Any]:
    """The KafkaSparkJob of a name, with the caller's identity.

    :raises CheckpointError: it does not exist, or the caller may not read it.
    """
    core_api()  # Loads the identity.
    return JobResources(namespace=namespace, job=job).read()


def read_secret(namespace: str, name: str) -> dict[str, bytes]:
    """The keys of a Secret, with their values.

    :raises CommandRefused: it does not exist, or the caller may not read it.
    """
    api = core_api()
    try:
        body = api.read_namespaced_secret(name, namespace, _request_timeout=REQUEST_TIMEOUT)
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        msg = f"Secret {namespace}/{name} cannot be read: {getattr(error, 'reason', None) or error}"
        raise CommandRefused(msg, remedy="give the credentials with --config FILE") from error
    return {key: base64.b64decode(value) for key, value in (body.data or {}).items()}


class JobResources:
    """Reads and patches the job's resource; call :func:`core_api` first, which loads the identity."""

    def __init__(self, *, namespace: str, job: str) -> None:
        self._place = (names.GROUP, names.VERSION, namespace, names.PLURAL, job)
        self._what = f"KafkaSparkJob {namespace}/{job}"
        self._api = client.CustomObjectsApi()

    def read(self) -> dict[str, Any]:
        """:raises CheckpointError: it does not exist, the caller may not read it, or no answer arrived."""
        return dict(
            self._ask(lambda: self._api.get_namespaced_custom_object(*self._place, _request_timeout=REQUEST_TIMEOUT))
        )

    def patch_spec(self, changes: Mapping[str, Any], *, expected: str) -> None:
        """Merges into ``spec``.

        :param expected: the resource's version that the changes are based on.
        :raises CheckpointError: see :meth:`read`; :class:`CheckpointConflict` where the resource has changed since.
        """
        body = {"metadata": {"resourceVersion": expected}, "spec": changes}
        self._ask(
            lambda: self._api.patch_namespaced_custom_object(
                *self._place, body, _content_type="application/merge-patch+json", _request_timeout=REQUEST_TIMEOUT
            )
        )

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ApiException as error:
            if error.status == 409:
                msg = f"{self._what} was changed meanwhile"
                raise CheckpointConflict(msg, remedy="check the resource, then repeat the command") from error
            msg = f"{self._what}: the API server answered {error.status} {error.reason}"
            remedy = "check --namespace and --job, and your permission: kubectl auth can-i patch kafkasparkjobs"
            raise CheckpointError(msg, remedy=remedy) from error
        except urllib3.exceptions.HTTPError as error:
            msg = f"{self._what}: no answer from the API server: {error}"
            raise CheckpointStoreUnavailable(msg, remedy="check the kubeconfig, and that the cluster is up") from error
