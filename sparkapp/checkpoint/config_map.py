"""ConfigMaps as the driver uses them, and a job's resource as people's commands do.

The only importer of the Kubernetes client in the application.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.store import Stored
from sparkapp.model import names
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointError,
    CheckpointMissing,
    CheckpointStoreUnavailable,
    CommandRefused,
)

LOG = logging.getLogger(__name__)

_REQUEST_TIMEOUT = (5, 10)
_RETRIED = frozenset({429, 500, 502, 503, 504})


def core_api() -> Any:
    """A client with the pod's own identity (or the developer's kubeconfig outside a cluster)."""
    try:
        config.load_incluster_config()
    except config.ConfigException:
        config.load_kube_config()
    return client.CoreV1Api()


def read_resource(namespace: str, job: str) -> dict[str, Any]:
    """The KafkaSparkJob of a name, with the caller's own identity; for commands that people type.

    :raises CommandRefused: there is none, or it may not be read.
    """
    core_api()  # loads the identity
    api = client.CustomObjectsApi()
    what = f"{names.KIND} {namespace}/{job}"
    call = partial(api.get_namespaced_custom_object, names.GROUP, names.VERSION, namespace, names.PLURAL, job)
    body: dict[str, Any] = _for_people(call, what)
    return body


def read_secret(namespace: str, name: str, key: str) -> str:
    """One key of a Secret, as text; for commands that people type.

    :raises CommandRefused: there is none, or it may not be read.
    """
    api = core_api()
    body = _for_people(partial(api.read_namespaced_secret, name, namespace), f"Secret {namespace}/{name}")
    encoded = (body.data or {}).get(key)
    if encoded is None:
        msg = f"Secret {namespace}/{name} has no key {key!r}"
        raise CommandRefused(msg, remedy="give the credentials with --config FILE")
    return base64.b64decode(encoded).decode()


def _for_people(call: Callable[..., Any], what: str) -> Any:
    try:
        return call(_request_timeout=_REQUEST_TIMEOUT)
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        status = getattr(error, "status", None)
        answer = {404: "does not exist", 403: "may not be read by you"}.get(status or 0, f"cannot be read: {error}")
        msg = f"{what} {answer}"
        raise CommandRefused(msg, remedy="check --namespace and --job, or give --bootstrap and --prefix") from error


class ConfigMapStore:
    """The checkpoint document under one key of the job's state ConfigMap.

    The version is the ConfigMap's ``resourceVersion``, sent back as a precondition of the patch, so the API server
    itself refuses a writer that was superseded.

    :param deadline: seconds to keep trying while the API server does not answer. Longer than an API server's
        restart, far shorter than the transactions' time-out.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, deadline: float = 60.0) -> None:
        self._api = api
        self._namespace = namespace
        self._name = names.state_config_map(job)
        self._deadline = deadline

    def read(self) -> Stored:
        body = self._patiently(
            lambda: self._api.read_namespaced_config_map(self._name, self._namespace, _request_timeout=_REQUEST_TIMEOUT)
        )
        return Stored((body.data or {}).get(names.CHECKPOINT_KEY), body.metadata.resource_version)

    def write(self, text: str, *, expected: str) -> str:
        patch = {"metadata": {"resourceVersion": expected}, "data": {names.CHECKPOINT_KEY: text}}
        try:
            body = self._patiently(
                lambda: self._api.patch_namespaced_config_map(
                    self._name, self._namespace, patch, _request_timeout=_REQUEST_TIMEOUT
                )
            )
        except CheckpointConflict:
            # A first try whose answer was lost leaves exactly our text behind; then nobody else has written.
            found = self.read()
            if found.text == text:
                return found.version
            raise
        return str(body.metadata.resource_version)

    def _patiently(self, call: Callable[[], Any]) -> Any:
        end = time.monotonic() + self._deadline
        pause = 0.2
        while True:
            try:
                return call()
            except ApiException as error:
                problem: Exception = error
                if error.status == 409:
                    msg = f"ConfigMap {self._name} was changed by somebody else"
                    raise CheckpointConflict(msg) from error
                if error.status == 404:
                    msg = f"ConfigMap {self._name} is gone"
                    raise CheckpointMissing(msg) from error
                if error.status not in _RETRIED:
                    msg = f"ConfigMap {self._name}: the API server answered {error.status} {error.reason}"
                    raise CheckpointError(msg) from error
            except urllib3.exceptions.HTTPError as error:
                problem = error
            if time.monotonic() >= end:
                msg = f"ConfigMap {self._name}: no answer from the API server within {self._deadline:.0f} s: {problem}"
                raise CheckpointStoreUnavailable(msg) from problem
            LOG.warning("ConfigMap %s: %s; trying again", self._name, problem)
            time.sleep(pause)
            pause = min(2 * pause, 5.0)


class ReportWriter:
    """Puts the driver's report where the operator looks for it; never fails the job."""

    def __init__(self, api: Any, *, namespace: str, job: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = names.report_config_map(job)

    def write(self, text: str) -> None:
        try:
            self._api.patch_namespaced_config_map(
                self._name, self._namespace, {"data": {names.REPORT_KEY: text}}, _request_timeout=_REQUEST_TIMEOUT
            )
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            LOG.warning("the report could not be written (the job goes on): %s", error)
