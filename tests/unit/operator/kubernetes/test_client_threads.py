"""Requests wait for a thread: leadership is asked for after that wait, and the Lease does not have it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import kubernetes
import pytest

from kafkasparkjob_operator import runtime
from kafkasparkjob_operator.kubernetes.client import KubeCluster
from kafkasparkjob_operator.kubernetes.port import NotLeading
from kafkasparkjob_operator.settings import Settings
from tests.support.patience import PATIENCE

POD = {"kind": "Pod", "metadata": {"namespace": "team", "name": "x"}}


class SlowServer:
    """In a connection pool's place: answers when it may."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.answers = threading.Event()

    def urlopen(self, method: str, url: str, **_: Any) -> Any:
        self.sent.append(f"{method} {url.rsplit('/', maxsplit=1)[-1]}")
        self.answers.wait(PATIENCE)
        return SimpleNamespace(status=200, data=b'{"metadata": {"namespace": "team", "name": "x"}}')


@pytest.fixture
def server() -> Iterator[SlowServer]:
    made = SlowServer()
    yield made
    made.answers.set()


async def test_a_write_that_has_waited_for_its_thread_asks_again_whether_it_may(server: SlowServer) -> None:
    leading = True
    observed: list[tuple[str, int]] = []
    cluster = KubeCluster(
        kubernetes.client.Configuration(host="https://10.96.0.1"), connections=1,
        observe=lambda *each: observed.append(each), may_act=lambda: leading,
    )  # fmt: skip
    cluster._pool = server
    first = asyncio.ensure_future(cluster.create(POD))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(cluster.create(POD))
    read = asyncio.ensure_future(cluster.get("Pod", "team", "x"))
    await asyncio.sleep(0.05)
    leading = False
    server.answers.set()
    await first
    with pytest.raises(NotLeading):
        await second
    assert await read is not None
    assert server.sent == ["POST pods", "GET x"]
    assert sorted(observed) == [("GET", 200), ("POST", 200)]
    cluster.close()


async def test_the_lease_does_not_wait_behind_the_jobs(server: SlowServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runtime, "load_configuration", lambda **_: kubernetes.client.Configuration(host="https://10.96.0.1")
    )
    operator = runtime._Operator(Settings(connections=2))
    quick = SlowServer()
    quick.answers.set()
    operator.cluster._pool, operator.lease_cluster._pool = server, quick
    jobs = [asyncio.ensure_future(operator.cluster.get("Pod", "team", str(number))) for number in range(9)]
    await asyncio.sleep(0.05)
    assert isinstance(operator.leadership, runtime.Leadership)
    await asyncio.wait_for(operator.leadership.step(), 5)
    assert operator.leadership.leading
    server.answers.set()
    await asyncio.gather(*jobs)
    operator.cluster.close()
    operator.lease_cluster.close()
