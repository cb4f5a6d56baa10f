"""The adapter against a real API server: every answer becomes what the port promises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from kafkasparkjob_operator.controller.watches.versions import KINDS
from kafkasparkjob_operator.identity import ROLE_ATTEMPT, ROLE_SNAPSHOT, JobIdentity, JobKey
from kafkasparkjob_operator.kubernetes.client import PAGE_ITEMS, KubeCluster, load_configuration
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectConflict, ObjectExists, ObjectRefused
from kafkasparkjob_operator.resources.config_maps import report_config_map
from sparkapp.model import names
from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_server_job import LiveJob


class Requests(list[tuple[str, int]]):
    def observe(self, verb: str, status: int) -> None:
        self.append((verb, status))


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def cluster(kubeconfig: Path, requests: Requests, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeCluster]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    made = KubeCluster(load_configuration(connections=2), connections=2, observe=requests.observe)
    yield made
    made.close()


def config_map(namespace: str, name: str = "orders") -> dict[str, Any]:
    return without_owner(report_config_map(JobIdentity(namespace, name, "some-uid")))


def without_owner(body: dict[str, Any]) -> dict[str, Any]:
    """The cluster collects what is owned by a resource that does not exist."""
    del body["metadata"]["ownerReferences"]
    return body


async def test_what_is_not_there_is_none(cluster: KubeCluster, namespace: str, requests: Requests) -> None:
    assert await cluster.get("ConfigMap", namespace, "nothing") is None
    assert await cluster.get_job(JobKey(namespace, "nothing")) is None
    assert requests == [("GET", 404), ("GET", 404)]


async def test_creating_twice_and_replacing_what_has_changed(cluster: KubeCluster, namespace: str) -> None:
    made = await cluster.create(config_map(namespace))
    with pytest.raises(ObjectExists):
        await cluster.create(config_map(namespace))
    changed = await cluster.replace({**made, "data": {"a": "b"}})
    assert changed["data"] == {"a": "b"}
    with pytest.raises(ObjectConflict):
        await cluster.replace({**made, "data": {"a": "c"}})


async def test_what_the_server_refuses_keeps_its_message(cluster: KubeCluster, namespace: str) -> None:
    with pytest.raises(ObjectRefused, match=r"Too long|must be no more than"):
        await cluster.create(config_map(namespace, "x" * 300))
    with pytest.raises(ClusterError, match="not found") as caught:
        await cluster.create(config_map("no-such-namespace"))
    assert caught.value.status == 404


async def test_versions_of_config_maps_that_belong_to_no_job(
    cluster: KubeCluster, namespace: str, requests: Requests
) -> None:
    """Without their contents, and from the API server's memory, which may be milliseconds behind."""
    await cluster.create(config_map(namespace))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": "modules"}}
    made = await cluster.create({**body, "data": {"orders.py": "x" * 1000}})

    async def version() -> str | None:
        found = await cluster.list_versions(namespace)
        assert "orders-report" not in found
        return found.get("modules")

    await _await_value(version, made["metadata"]["resourceVersion"])
    changed = await cluster.replace({**made, "data": {"orders.py": "y"}})
    await _await_value(version, changed["metadata"]["resourceVersion"])
    assert {verb for verb, _ in requests} == {"POST", "PUT", "LIST"}


async def test_objects_of_jobs_in_a_namespace_and_in_all(
    cluster: KubeCluster, namespace: str, requests: Requests
) -> None:
    made = await cluster.create(config_map(namespace))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": "of-no-job"}}
    await cluster.create(body)
    for place in (namespace, None):
        found = [each async for page in cluster.list_objects("ConfigMap", place) for each in page]
        (mine,) = (each for each in found if each["metadata"]["namespace"] == namespace)
        assert mine["metadata"]["uid"] == made["metadata"]["uid"]
        assert mine["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert "data" not in mine
    for kind in KINDS:
        assert [page async for page in cluster.list_objects(kind, namespace)]
    assert {verb for verb, _ in requests} == {"POST", "LIST"}


async def _await_value(read: Callable[[], Awaitable[str | None]], expected: str) -> None:
    end = time.monotonic() + 10
    while (found := await read()) != expected:
        assert time.monotonic() < end, found
        await asyncio.sleep(0.05)


async def test_deleting_minds_the_uid(cluster: KubeCluster, namespace: str) -> None:
    made = await cluster.create(config_map(namespace))
    name = made["metadata"]["name"]
    await cluster.delete("ConfigMap", namespace, name, uid="another-uid")
    assert await cluster.get("ConfigMap", namespace, name) is not None
    await cluster.delete("ConfigMap", namespace, name, uid=made["metadata"]["uid"])
    assert await cluster.get("ConfigMap", namespace, name) is None
    await cluster.delete("ConfigMap", namespace, name)


async def test_lists_are_by_label(cluster: KubeCluster, namespace: str, requests: Requests) -> None:
    for name in ("orders", "returns"):
        await cluster.create(config_map(namespace, name))
    key = JobKey(namespace, "orders")
    assert await cluster.list_attempts(key) == []
    attempts = [names.attempt_config_map("orders", "uid", number) for number in range(1, PAGE_ITEMS + 6)]
    for number, name in enumerate(attempts, start=1):
        labels = names.labels("orders", attempt=number, role=ROLE_ATTEMPT)
        body = {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": {"junk": "x"}}
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", **body})
    requests.clear()
    found = await cluster.list_attempts(key)
    assert {each["metadata"]["name"] for each in found} == set(attempts)
    assert not any("data" in each for each in found), "the metadata alone"
    assert requests == [("LIST", 200)] * 2, "two pages"
    assert await cluster.list_snapshots(key) == []
    snapshot = names.snapshot_config_map("before", "uid")
    meta = {"name": snapshot, "namespace": namespace, "labels": names.labels("orders", role=ROLE_SNAPSHOT)}
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"junk": "x"}})
    (only,) = await cluster.list_snapshots(key)
    assert (only["metadata"]["name"], "data" in only) == (snapshot, False)
    assert await cluster.list_pods(key) == []
    assert requests[-1] == ("LIST", 200)


async def test_a_status_is_written_at_the_version_that_was_read(
    cluster: KubeCluster, api: ApiClient, namespace: str
) -> None:
    job = LiveJob(api, namespace)
    version = job.create()["metadata"]["resourceVersion"]
    key = JobKey(namespace, job.name)
    written = await cluster.patch_status(key, {"state": "Pending", "reason": "x"}, resource_version=version)
    assert written is not None
    assert written["status"]["state"] == "Pending"
    with pytest.raises(ObjectConflict):
        await cluster.patch_status(key, {"state": "Running"}, resource_version=version)
    current = written["metadata"]["resourceVersion"]
    cleared = await cluster.patch_status(key, {"reason": None}, resource_version=current)
    assert cleared is not None
    assert cleared["status"] == {"state": "Pending"}
    gone = JobKey(namespace, "nothing")
    assert await cluster.patch_status(gone, {"state": "x"}, resource_version="1") is None
    pages = [page async for page in cluster.list_jobs(namespace)]
    assert [[each["metadata"]["name"] for each in page] for page in pages] == [[job.name]]


async def test_the_definition_is_seen_where_it_is(
    cluster: KubeCluster, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await cluster.serves_jobs()
    monkeypatch.setattr("kafkasparkjob_operator.kubernetes.client.DISCOVERY", "/apis/streaming.kafkaspark.io/v9")
    assert not await cluster.serves_jobs()
    monkeypatch.setattr("kafkasparkjob_operator.kubernetes.client.DISCOVERY", "/apis/apps/v1")
    assert not await cluster.serves_jobs()


async def test_a_server_that_does_not_answer_is_given_up_soon(requests: Requests) -> None:
    nobody = kubernetes.client.Configuration(host="https://127.0.0.1:9")
    cluster = KubeCluster(nobody, connections=1, observe=requests.observe)
    began = time.monotonic()
    with pytest.raises(ClusterError, match="no answer"):
        await cluster.get("ConfigMap", "default", "x")
    assert time.monotonic() - began < 60
    assert requests == [("GET", 0)]
    cluster.close()
