"""Where a request goes: an API server may be behind a path, or behind a proxy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kubernetes
import pytest

from kafkasparkjob_operator.kubernetes.client import KubeCluster

HOST = "https://rancher.example.com/k8s/clusters/c-1"
PATH = "/api/v1/namespaces/team/configmaps/x"


class Server:
    """In the place of connections."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def urlopen(self, method: str, url: str, **_: Any) -> Any:
        self.asked.append(f"{method} {url}")
        return SimpleNamespace(status=200, data=b"{}")


@pytest.mark.parametrize(
    ("host", "proxy", "expected"),
    [
        ("https://10.0.0.1:6443", None, PATH),
        (HOST, None, f"/k8s/clusters/c-1{PATH}"),
        (f"{HOST}/", None, f"/k8s/clusters/c-1{PATH}"),
        (HOST, "http://proxy:3128", f"{HOST}{PATH}"),
    ],
)
async def test_a_request_goes_to_the_server_of_the_configuration(host: str, proxy: str | None, expected: str) -> None:
    configuration = kubernetes.client.Configuration()
    configuration.host, configuration.proxy = host, proxy
    cluster, server = KubeCluster(configuration, connections=1, observe=lambda *_: None), Server()
    connected = cluster._pool.proxy if proxy else cluster._pool
    assert connected.host == ("proxy" if proxy else host.split("/")[2].partition(":")[0])
    cluster._pool = server
    await cluster.get("ConfigMap", "team", "x")
    assert server.asked == [f"GET {expected}"]
    cluster.close()
