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
from sparkapp.checkpoint.kubernetes.user_access import CONNECTION, refusal
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import decode_snapshot
from sparkapp.model.errors import CheckpointConflict, CheckpointStoreUnavailable, CommandRefused


def read_resource(namespace: str, job: str, context: str = "") -> dict[str, Any]:
    """The KafkaSparkJob of a name, with the caller's identity.

    :param context: of the kubeconfig, as in :func:`core_api`.
    :raises CommandRefused: it does not exist, or the caller may not read it.
    :raises CheckpointError: no answer arrived.
    """
    core_api(context)  # Loads the identity.
    return JobResources(namespace=namespace, job=job).read()


def read_secret(namespace: str, name: str, context: str = "") -> dict[str, bytes]:
    """The keys of a Secret, with their values.

    :param context: of the kubeconfig, as in :func:`core_api`.
    :raises CommandRefused: it does not exist, or the caller may not read it.
    """
    api = core_api(context)
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
        self._namespace = namespace
        self._what = f"{names.KIND} {namespace}/{job}"
        self._api = client.CustomObjectsApi()

    def read(self) -> dict[str, Any]:
        """:raises CommandRefused: it does not exist, or the caller may not read it.
        :raises CheckpointError: no answer arrived.
        """
        return self._object(self._place, self._what)

    def read_snapshot(self, name: str) -> RetainedCheckpoint:
        """The checkpoint of a KafkaSparkSnapshot of the job's namespace.

        :raises CommandRefused: it does not exist, is not Ready, or its ConfigMap was deleted.
        :raises CheckpointError: see :meth:`read`.
        """
        what = f"{names.SNAPSHOT_KIND} {self._namespace}/{name}"
        place = (names.GROUP, names.VERSION, self._namespace, names.SNAPSHOT_PLURAL, name)
        core = client.CoreV1Api()
        body = self._object(place, what)
        status = body.get("status") or {}
        if status.get("state") != "Ready":
            msg = f"{what} is not Ready but {status.get('state', 'Pending')}: {status.get('message', '')}".rstrip(": ")
            raise CommandRefused(msg, remedy=f"kubectl get kss -n {self._namespace} -o wide")
        config_map = str(status["configMap"]["name"])
        kept = self._ask(
            lambda: core.read_namespaced_config_map(config_map, self._namespace, _request_timeout=REQUEST_TIMEOUT),
            f"ConfigMap {config_map} of {what}",
        )
        return decode_snapshot(str((kept.data or {}).get(names.SNAPSHOT_KEY, "")), job_uid=str(status["jobUID"]))

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

    def _object(self, place: tuple[str, ...], what: str) -> dict[str, Any]:
        body = self._ask(
            lambda: self._api.get_namespaced_custom_object(*place, _request_timeout=REQUEST_TIMEOUT), what, place[3]
        )
        if not isinstance(body, dict):
            raise _no_object(what)
        return body

    def _ask(self, call: Callable[[], Any], what: str = "", plural: str = names.PLURAL) -> Any:
        what = what or self._what
        try:
            return call()
        except ApiException as error:
            if error.status == 409:
                msg = f"{what} was changed meanwhile"
                raise CheckpointConflict(msg, remedy="check the resource, then repeat the command") from error
            msg = f"{what}: the API server answered {error.status} {error.reason}"
            raise refusal(msg, error.status, namespace=self._namespace, plural=plural) from error
        except urllib3.exceptions.HTTPError as error:
            msg = f"{what}: no answer from the API server: {error}"
            raise CheckpointStoreUnavailable(msg, remedy=CONNECTION) from error
        except (ValueError, TypeError, AttributeError) as error:
            # The client makes an object of whatever a proxy has sent.
            raise _no_object(what) from error


def _no_object(what: str) -> CommandRefused:
    return CommandRefused(f"{what}: the API server's answer is no JSON object", remedy=CONNECTION)
