"""The Kubernetes API with the rights of the person at the keyboard."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode

from sparkapp.model import names
from sparkapp.model.errors import CommandRefused

_SECONDS = 15.0
_CLUSTER_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
_DONE = frozenset({200, 201, 202})
_CONNECTION = "check the kubeconfig: kubectl cluster-info"
_COLLECTION = re.compile(r"/namespaces/([^/?]+)/([^/?]+)")
"""Namespace and plural of a path of the API."""


class UserCluster:
    """A cluster and an identity.

    :param configuration: of the official client.
    :param namespace: where the person names none.
    """

    def __init__(self, configuration: Any, namespace: str) -> None:
        from kubernetes.client.rest import RESTClientObject

        self.namespace = namespace
        self._configuration = configuration
        self._pool = RESTClientObject(configuration).pool_manager

    @classmethod
    def of_context(cls, context: str) -> UserCluster:
        """The cluster of a context of the kubeconfig; empty for the current context.

        :raises CommandRefused: there is no kubeconfig, it cannot be read, or it has no such context.
        """
        from kubernetes import client

        from sparkapp.checkpoint.kubernetes.user_access import load_kubeconfig, namespace_of

        configuration = client.Configuration()
        load_kubeconfig(context, configuration)
        return cls(configuration, namespace_of(context))

    @classmethod
    def of_bearer(cls, authorization: str) -> UserCluster:
        """The cluster of this pod, with the token of an ``Authorization`` header instead of the pod's own.

        :raises CommandRefused: the header has no bearer token.
        """
        from kubernetes.client import Configuration

        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            msg, remedy = (
                "the request has no bearer token",
                "open the console behind a proxy that sends the user's token",
            )
            raise CommandRefused(msg, remedy=remedy)
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        configuration = Configuration()
        configuration.host = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        configuration.ssl_ca_cert = _CLUSTER_CA
        configuration.api_key = {"authorization": f"Bearer {token.strip()}"}
        return cls(configuration, "default")

    def job(self, namespace: str, name: str) -> dict[str, Any]:
        """A KafkaSparkJob.

        :raises CommandRefused: it does not exist, or the user may not read it; so in every method.
        """
        return self.get(f"{resources_path(namespace, names.PLURAL)}/{quote(name, safe='')}")

    def pods(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """The job's pods: drivers, standby and executors."""
        selector = {"labelSelector": f"{names.LABEL_JOB}={name}"}
        return self.items(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods", selector)

    def events(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """The job's events, the oldest first."""
        selector = {"fieldSelector": f"involvedObject.kind={names.KIND},involvedObject.name={name}"}
        items = self.items(f"/api/v1/namespaces/{quote(namespace, safe='')}/events", selector)
        return sorted(items, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object at a path of the API."""
        return _object(path, self.raw(path, query).data)

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The objects of the collection at a path of the API."""
        found = self.get(path, query).get("items")
        if not isinstance(found, list):
            raise CommandRefused(f"the API server's answer is no list: {path}", remedy=_CONNECTION)
        return found

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Creates an object in the collection at a path; returns it.

        :raises CommandRefused: the API server refuses it.
        """
        return _object(path, self._send("POST", path, body=json.dumps(body).encode()).data)

    def delete(self, path: str) -> None:
        """Deletes the object at a path, and what it owns afterwards."""
        self._send("DELETE", path, body=b'{"propagationPolicy":"Background"}')

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """The lines of a log, as they come."""
        response = self.raw(path, query, stream=True)
        rest = ""
        for chunk in response.stream(1 << 14):
            *lines, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
            yield from lines
        if rest:
            yield rest

    def raw(self, path: str, query: Mapping[str, str] | None = None, *, stream: bool = False) -> Any:
        """The answer of urllib3 to a GET.

        :param stream: its body is read as it comes, without a limit of time.
        """
        return self._send("GET", f"{path}?{urlencode(query)}" if query else path, stream=stream)

    def _send(self, method: str, path: str, *, body: bytes | None = None, stream: bool = False) -> Any:
        import urllib3  # not in a light installation

        token = self._configuration.auth_settings().get("BearerToken")
        headers = {"User-Agent": "kafkaspark", **({} if token is None else {"Authorization": token["value"]})}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = self._pool.request(
                method, self._configuration.host + path, retries=False, preload_content=not stream, headers=headers,
                body=body,
                timeout=urllib3.Timeout(connect=_SECONDS, read=None if stream else _SECONDS),
            )  # fmt: skip
        except (urllib3.exceptions.HTTPError, OSError) as error:
            msg = f"the API server does not answer: {error}"
            raise CommandRefused(msg, remedy=_CONNECTION) from error
        if response.status not in _DONE:
            raise _refusal(path, int(response.status), response.data)
        return response


def resources_path(namespace: str, plural: str) -> str:
    """The path of the collection of jobs or snapshots of a namespace."""
    return f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{quote(namespace, safe='')}/{plural}"


def _object(path: str, data: bytes) -> dict[str, Any]:
    """:raises CommandRefused: something else has answered, for instance a proxy with a page to log in."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise CommandRefused(f"the API server's answer is no JSON object: {path}", remedy=_CONNECTION)
    return body


def _refusal(path: str, status: int, data: bytes) -> CommandRefused:
    from sparkapp.checkpoint.kubernetes.user_access import refusal

    try:
        message = str(json.loads(data).get("message", ""))
    except (ValueError, AttributeError):
        message = ""
    what = message or f"the API server answered {status} to {path}"
    found = _COLLECTION.search(path)
    return refusal(what, status, namespace=unquote(found[1]) if found else "", plural=found[2] if found else "")
