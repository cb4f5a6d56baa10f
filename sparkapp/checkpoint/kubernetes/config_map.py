"""Requests for a ConfigMap of a job; refusals become errors of the project."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

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
)

LOG = logging.getLogger(__name__)

REQUEST_TIMEOUT = (5.0, 10.0)
"""Seconds to connect, and seconds to wait for an answer."""
_LEAST_SECONDS = 0.1
"""urllib3 accepts no timeout of 0."""
_RETRIED = frozenset({0, 429, 500, 502, 503, 504})
"""Status codes that a retry may heal. The client reports a failed TLS handshake as 0."""


def core_api() -> Any:
    """A client with the pod's identity, or with the developer's kubeconfig outside a cluster."""
    try:
        config.load_incluster_config()
    except config.ConfigException:
        try:
            config.load_kube_config()
        except config.ConfigException as error:
            msg = f"no configuration of a Kubernetes cluster found: {error}"
            raise CheckpointError(msg, remedy="set KUBECONFIG, or name a state file: --state FILE") from error
    return client.CoreV1Api()


class ConfigMap:
    """Reads and patches one ConfigMap of a job; retries while the API server does not answer.

    Without a deadline a request is tried once.

    :ivar unanswered: whether an attempt of the last request may have taken effect without an answer.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._job = job
        self.name = name
        self.unanswered = False

    def read(self, deadline: Deadline | None) -> Any:
        """The ConfigMap.

        :raises CheckpointMissing: it does not exist. :raises CheckpointStoreUnavailable: no answer by the deadline.
        """
        return self._patiently(
            deadline,
            lambda timeout: self._api.read_namespaced_config_map(self.name, self._namespace, _request_timeout=timeout),
        )

    def patch(self, body: Mapping[str, Any], deadline: Deadline | None) -> Any:
        """Merges into the ConfigMap, and returns it.

        :raises CheckpointConflict: the version in the body is not the newest.
        :raises CheckpointRefused: and CheckpointTooLarge: nothing was written by the last request.
        """
        return self._patiently(
            deadline,
            lambda timeout: self._api.patch_namespaced_config_map(
                self.name, self._namespace, body, _request_timeout=timeout
            ),
        )

    def _patiently(self, deadline: Deadline | None, call: Callable[[tuple[float, float]], Any]) -> Any:
        seconds = deadline.remaining if deadline is not None else 0.0
        pause = 0.2
        self.unanswered = False
        while True:
            try:
                return call(_request_timeout(deadline))
            except ApiException as error:
                if error.status not in _RETRIED:
                    raise self._refusal(error) from error
                problem = f"{error.status} {_answer(error)}"
                # The API server rejects a throttled request before it acts on it.
                self.unanswered |= error.status != 429
            except urllib3.exceptions.HTTPError as error:
                problem = str(error)
                self.unanswered = True
            if deadline is None or deadline.expired:
                msg = f"ConfigMap {self.name}: no answer from the API server within {seconds:.0f} s: {problem}"
                raise CheckpointStoreUnavailable(msg)
            LOG.warning("ConfigMap %s: %s; retrying", self.name, problem)
            time.sleep(deadline.bound(pause))
            pause = min(2 * pause, 5.0)

    def _refusal(self, error: ApiException) -> CheckpointError:
        if error.status == 409:
            return CheckpointConflict(f"ConfigMap {self.name} was changed by another writer")
        if error.status == 404:
            return CheckpointMissing(
                f"ConfigMap {self.name} does not exist", remedy=way_back(self._namespace, self._job)
            )
        msg = f"ConfigMap {self.name}: the API server answered {error.status}: {_answer(error)}"
        if error.status == 413 or (error.status == 422 and "too long" in _answer(error).lower()):
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


def _request_timeout(deadline: Deadline | None) -> tuple[float, float]:
    """Seconds to connect and to wait for an answer, bounded by the deadline."""
    if deadline is None:
        return REQUEST_TIMEOUT
    connect, answer = REQUEST_TIMEOUT
    return max(_LEAST_SECONDS, deadline.bound(connect)), max(_LEAST_SECONDS, deadline.bound(answer))


def _answer(error: ApiException) -> str:
    """The API server's error message."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
