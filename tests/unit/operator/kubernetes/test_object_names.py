"""A name that no object can have is no part of a URL: a request with it would go to another object, or to a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest

from kafkasparkjob_operator.controller.watches.code_watch import digest_of
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.client import KubeCluster
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectRefused
from kafkasparkjob_operator.observation.observation import job_resource
from tests.support.kubernetes.operator_fixture import job_body

FOREIGN = [
    "..", ".", "", "x/../y", "../configmaps?watch=true", "../../kube-system/configmaps/x", "x?watch=true", "x#y",
    "x%2e", "Modules", "modules_1", "-modules", "modules-", "a..b", ".a", "modules\n", "ä", "a" * 254,
]  # fmt: skip


class Sent(list[str]):
    """In a connection pool's place: nothing should come here."""

    def urlopen(self, method: str, url: str, **_: Any) -> Any:
        self.append(f"{method} {url}")
        raise OSError("sent")


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def cluster(sent: Sent) -> Iterator[KubeCluster]:
    made = KubeCluster(
        kubernetes.client.Configuration(host="https://10.96.0.1"),
        connections=1,
        observe=lambda *_: sent.append("observed"),
    )
    made._pool = sent
    yield made
    made.close()


@pytest.mark.parametrize("name", FOREIGN)
async def test_an_object_of_such_a_name_does_not_exist(cluster: KubeCluster, sent: Sent, name: str) -> None:
    assert await cluster.get("ConfigMap", "team", name) is None
    assert await cluster.get_job(JobKey("team", name)) is None
    await cluster.delete("ConfigMap", "team", name)
    assert await cluster.patch_status(JobKey("team", name), {}, resource_version="1") is None
    assert await cluster.set_finalizers(JobKey("team", name), (), resource_version="1") is None
    assert await cluster.annotate_pod(JobKey("team", "orders"), name, {}, uid="u") is False
    assert sent == []


@pytest.mark.parametrize("name", FOREIGN)
async def test_an_object_of_such_a_name_is_not_written(cluster: KubeCluster, sent: Sent, name: str) -> None:
    manifest = {"kind": "ConfigMap", "metadata": {"namespace": "team", "name": name}}
    for write in (cluster.apply, cluster.replace):
        with pytest.raises(ObjectRefused, match="DNS subdomain"):
            await write(manifest)
    assert sent == []


@pytest.mark.parametrize("name", FOREIGN)
async def test_a_namespace_of_such_a_name_has_nothing(cluster: KubeCluster, sent: Sent, name: str) -> None:
    assert await cluster.get("ConfigMap", name, "modules") is None
    key = JobKey(name, "orders")
    for listing in (cluster.list_pods, cluster.list_attempts, cluster.list_snapshots):
        with pytest.raises(ObjectRefused, match="DNS subdomain"):
            await listing(key)
    with pytest.raises(ObjectRefused, match="DNS subdomain"):
        [page async for page in cluster.list_jobs(name)]
    with pytest.raises(ObjectRefused, match="DNS subdomain"):
        await cluster.create({"kind": "Pod", "metadata": {"namespace": name, "name": "x"}})
    assert sent == []


@pytest.mark.parametrize("name", FOREIGN)
async def test_modules_of_such_a_name_have_no_digest(cluster: KubeCluster, sent: Sent, name: str) -> None:
    transform = {"python": {"function": "enrich:transform", "configMapRef": {"name": name}}}
    assert await digest_of(cluster, job_resource(job_body(transform=transform))) == ""
    assert sent == []


@pytest.mark.parametrize("name", ["a", "0", "modules.v1", "a" * 253, "my-modules-1.2.3"])
async def test_the_name_of_an_object_is_asked_for(cluster: KubeCluster, sent: Sent, name: str) -> None:
    with pytest.raises(ClusterError, match="no answer: sent"):
        await cluster.get("ConfigMap", "team", name)
    assert sent[0].endswith(f"/api/v1/namespaces/team/configmaps/{name}")
