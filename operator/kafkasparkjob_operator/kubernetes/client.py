"""The Kubernetes API by the official client: the only module that imports it.

The client provides identity, TLS and connection pool. Requests and answers are plain JSON objects, because the client's
model classes cost more than the requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode, urlsplit

import kubernetes
import urllib3

from kafkasparkjob_operator.identity import ROLE_SNAPSHOT, ROLES_OF_ATTEMPTS, JobKey
from kafkasparkjob_operator.kubernetes.answers import CONFLICT, NOT_FOUND, error_of, json_object
from kafkasparkjob_operator.kubernetes.paths import DISCOVERY, NAMESPACES, collection, everywhere, object_path
from kafkasparkjob_operator.kubernetes.port import (
    Body,
    ClusterError,
    NotLeading,
    ObjectConflict,
    ObjectRefused,
)
from sparkapp.model import names

CONNECT_SECONDS = 1.0
WRITE_SECONDS = 3.5
"""A write that begins just before leadership is lost ends before another leader begins. The renewal deadline (10 s),
the connection and this time are within the lease (15 s). Leadership is checked in the write's thread, so the wait for
a thread does not count."""
POD_SECONDS = 35.0
"""The creation of a pod calls every webhook, and each may take 30 s. The API server gives up after 34 s, and its answer
names the webhook. A leader that begins meanwhile deletes the attempt's ConfigMap, without which the pod cannot run."""
READ_SECONDS = 10.0
LIST_SECONDS = 30.0
PAGE_ITEMS = 100
"""Objects of an answer to a list: a resource may have more than a megabyte."""
METADATA_ITEMS = 500
"""The same without data."""

_OK, _REDIRECT = 200, 300
_NOT_SENT = -1
_LONGEST_TEXT = 256
_JSON = "application/json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_ANY_VERSION = "0"
"""Of a list that the API server answers from its memory, without a question to etcd."""
_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_APPLIER = (("fieldManager", names.MANAGED_BY), ("force", "true"))


def load_configuration(*, connections: int) -> Any:
    """The in-cluster identity, or else the kubeconfig.

    :param connections: concurrent requests.
    """
    configuration = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except kubernetes.config.ConfigException:
        kubernetes.config.load_kube_config(client_configuration=configuration)
    configuration.connection_pool_maxsize = connections
    configuration.retries = False  # the work queue retries, with a fresh look
    return configuration


class KubeCluster:
    """:class:`~kafkasparkjob_operator.kubernetes.port.Cluster` over HTTP; blocking calls run in threads of their own.

    :param observe: called with verb and status of every request, for the metrics.
    :param may_act: called in the thread of every write, right before the write is sent.
    """

    def __init__(
        self,
        configuration: Any,
        *,
        connections: int,
        observe: Callable[[str, int], None],
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._configuration = configuration
        self._manager = kubernetes.client.rest.RESTClientObject(configuration).pool_manager
        self._pool, self._prefix = _pool_of(self._manager, configuration.host)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="kubernetes")
        self._observe = observe
        self._may_act = may_act

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._manager.clear()

    async def serves_jobs(self) -> bool:
        """True where the CustomResourceDefinition of jobs is installed and served."""
        return await self._serves(names.PLURAL)

    async def serves_snapshots(self) -> bool:
        """The same of snapshots."""
        return await self._serves(names.SNAPSHOT_PLURAL)

    async def _serves(self, plural: str) -> bool:
        try:
            answer = await self._call("GET", DISCOVERY)
        except ClusterError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return any(kind.get("name") == plural for kind in answer.get("resources") or ())

    async def get_job(self, key: JobKey) -> Body | None:
        return await self.get(names.KIND, key.namespace, key.name)

    async def list_namespaces(self, selector: str) -> Sequence[str]:
        found = await self._list(NAMESPACES, selector, accept=_METADATA_ONLY)
        return [str(body["metadata"]["name"]) for body in found]

    def list_jobs(self, namespace: str | None) -> AsyncIterator[Sequence[Body]]:
        return self._pages(everywhere(names.KIND) if namespace is None else collection(names.KIND, namespace), "")

    async def list_pods(self, key: JobKey) -> Sequence[Body]:
        return await self._list(collection("Pod", key.namespace), f"{names.LABEL_JOB}={key.name}")

    async def list_attempts(self, key: JobKey) -> Sequence[Body]:
        return await self._list_config_maps(key, ROLES_OF_ATTEMPTS)

    async def list_snapshots(self, key: JobKey) -> Sequence[Body]:
        return await self._list_config_maps(key, (ROLE_SNAPSHOT,))

    async def _list_config_maps(self, key: JobKey, roles: Sequence[str]) -> Sequence[Body]:
        selector = f"{names.LABEL_JOB}={key.name},{names.LABEL_ROLE} in ({','.join(roles)})"
        return await self._list(collection("ConfigMap", key.namespace), selector, accept=_METADATA_ONLY)

    def list_objects(self, kind: str, namespace: str | None) -> AsyncIterator[Sequence[Body]]:
        path = everywhere(kind) if namespace is None else collection(kind, namespace)
        return self._pages(path, names.LABEL_JOB, accept=_METADATA_ONLY, items=METADATA_ITEMS)

    async def list_quotas(self, namespace: str) -> Sequence[Body]:
        return await self._list(collection("ResourceQuota", namespace), "")

    async def list_versions(self, namespace: str) -> Mapping[str, str]:
        selector = f"!{names.LABEL_JOB}"
        found = await self._list(
            collection("ConfigMap", namespace), selector, accept=_METADATA_ONLY, resource_version=_ANY_VERSION
        )
        return {body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in found}

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        try:
            return await self._call("GET", object_path(kind, namespace, name))
        except ClusterError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def create(self, manifest: Body) -> Body:
        path = collection(manifest["kind"], manifest["metadata"]["namespace"])
        seconds = POD_SECONDS if manifest["kind"] == "Pod" else WRITE_SECONDS
        return await self._call("POST", path, body=manifest, read_seconds=seconds)

    async def apply(self, manifest: Body) -> Body:
        meta = manifest["metadata"]
        path = object_path(manifest["kind"], meta["namespace"], meta["name"])
        return await self._call("PATCH", path, body=manifest, query=_APPLIER, content_type=_APPLY_PATCH)

    async def replace(self, manifest: Body) -> Body:
        meta = manifest["metadata"]
        return await self._call("PUT", object_path(manifest["kind"], meta["namespace"], meta["name"]), body=manifest)

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", object_path(kind, namespace, name), body=options)
        except ClusterError as error:
            if error.status not in {NOT_FOUND, CONFLICT}:
                raise

    async def delete_job_version(self, key: JobKey, *, uid: str, resource_version: str) -> None:
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        try:
            path = object_path(names.KIND, key.namespace, key.name)
            await self._call("DELETE", path, body={**options, "preconditions": preconditions})
        except ClusterError as error:
            if error.status != NOT_FOUND:
                raise

    async def patch_status(
        self, key: JobKey, patch: Body, *, resource_version: str, kind: str = names.KIND
    ) -> Body | None:
        body = {"metadata": {"resourceVersion": resource_version}, "status": patch}
        return await self._patch(kind, key, body, "/status")

    async def set_finalizers(self, key: JobKey, finalizers: Sequence[str], *, resource_version: str) -> Body | None:
        return await self._patch(
            names.KIND, key, {"metadata": {"resourceVersion": resource_version, "finalizers": [*finalizers]}}
        )

    async def _patch(self, kind: str, key: JobKey, body: Body, subresource: str = "") -> Body | None:
        try:
            path = object_path(kind, key.namespace, key.name) + subresource
            return await self._call("PATCH", path, body=body, content_type=_MERGE_PATCH)
        except ClusterError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def annotate_pod(self, key: JobKey, pod: str, annotations: Mapping[str, str], *, uid: str) -> bool:
        return await self._annotate("Pod", key.namespace, pod, annotations, uid) is not None

    async def annotate_config_map(
        self, namespace: str, name: str, annotations: Mapping[str, str | None], *, uid: str
    ) -> Body | None:
        return await self._annotate("ConfigMap", namespace, name, annotations, uid)

    async def _annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None], uid: str
    ) -> Body | None:
        try:
            return await self._patch(
                kind, JobKey(namespace, name), {"metadata": {"uid": uid, "annotations": dict(annotations)}}
            )
        except ObjectRefused as error:
            if "metadata.uid" in error.message:  # the answer to a merge patch of a recreated object
                raise ObjectConflict(error.message, status=CONFLICT) from error
            raise

    async def _list(
        self, path: str, selector: str, *, accept: str = _JSON, resource_version: str = ""
    ) -> Sequence[Body]:
        pages = self._pages(path, selector, accept=accept, resource_version=resource_version)
        return [item async for page in pages for item in page]

    async def _pages(
        self, path: str, selector: str, *, accept: str = _JSON, resource_version: str = "", items: int = PAGE_ITEMS
    ) -> AsyncIterator[Sequence[Body]]:
        query = [("limit", str(items)), *([("labelSelector", selector)] if selector else [])]
        query += [("resourceVersion", resource_version)] if resource_version else []
        more = ""
        while True:
            asked = [*query, ("continue", more)] if more else query
            answer = await self._call("GET", path, query=asked, read_seconds=LIST_SECONDS, verb="LIST", accept=accept)
            kind = str(answer.get("kind", "")).removesuffix("List")
            yield [{"kind": kind, **item} for item in answer.get("items") or ()]
            more = (answer.get("metadata") or {}).get("continue") or ""
            if not more:
                return

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        query: Sequence[tuple[str, str]] = (),
        content_type: str = _JSON,
        read_seconds: float | None = None,
        verb: str = "",
        accept: str = _JSON,
    ) -> dict[str, Any]:
        url = f"{path}?{urlencode(query)}" if query else path

        seconds = read_seconds or (READ_SECONDS if method == "GET" else WRITE_SECONDS)

        def request() -> dict[str, Any]:
            if method != "GET" and not self._may_act():
                msg = f"{method} {url}: not sent: another process leads"
                raise NotLeading(msg)
            return self._request(method, url, body, {"Accept": accept, "Content-Type": content_type}, seconds)

        status = 0
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, request)
            status = 200
            return answer
        except NotLeading:
            status = _NOT_SENT
            raise
        except ClusterError as error:
            status = error.status
            raise
        finally:
            if status != _NOT_SENT:
                self._observe(verb or method, status)

    def _request(
        self, method: str, url: str, body: Body | None, types: Mapping[str, str], seconds: float
    ) -> dict[str, Any]:
        headers = {**types, "User-Agent": names.MANAGED_BY}
        token = self._configuration.auth_settings().get("BearerToken")
        if token is not None:
            headers["Authorization"] = token["value"]
        try:
            response = self._pool.urlopen(
                method,
                self._prefix + url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=seconds),
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            msg = f"{method} {url}: no answer: {error}"
            raise ClusterError(msg) from error
        answer = json_object(response.data)
        if not _OK <= response.status < _REDIRECT:
            # An unknown path, and a refusal of a proxy, have an answer in plain text.
            text = response.data[:_LONGEST_TEXT].decode(errors="replace").strip()
            raise error_of(method, url, int(response.status), {"message": text} if answer is None else answer)
        if answer is None:
            msg = f"{method} {url}: the answer is no JSON object"
            raise ClusterError(msg)
        return answer


def _pool_of(manager: urllib3.PoolManager, host: str) -> tuple[Any, str]:
    """The connections to the API server, and what comes before a path.

    A manager reads the address with each request, a quarter of its CPU time. With a proxy the address is needed.
    """
    if manager.proxy is not None:
        return manager, host
    return manager.connection_from_url(host), urlsplit(host).path.rstrip("/")
