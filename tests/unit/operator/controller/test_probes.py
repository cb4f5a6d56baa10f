"""The operator's HTTP server, asked as the kubelet asks it: by the pod's address, of whichever family."""

from __future__ import annotations

import asyncio
import socket
import threading

import aiohttp
import pytest

from kafkasparkjob_operator.controller import probes
from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from localcluster.machine.ports import free_ports


async def serve(port: int, lacking: str = "") -> aiohttp.web.AppRunner:
    return await probes.serve(port, queue=WorkQueue(), metrics=OperatorMetrics(Cache()), unready=lambda: lacking)


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
async def test_it_answers_in_both_families(address: str) -> None:
    (port,) = free_ports(1)
    runner = await serve(port)
    try:
        for path in ("/healthz", "/readyz"):
            assert await get(f"http://{address}:{port}{path}") == (200, "ok")
        assert "kafkaspark_operator_leader" in (await get(f"http://{address}:{port}/metrics"))[1]
    finally:
        await runner.cleanup()


async def test_what_is_lacking_is_said() -> None:
    (port,) = free_ports(1)
    runner = await serve(port, "pods in all namespaces: not listed yet")
    try:
        assert await get(f"http://127.0.0.1:{port}/readyz") == (503, "pods in all namespaces: not listed yet")
    finally:
        await runner.cleanup()


async def test_one_family_is_enough_and_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(probes, "ANYWHERE", ("192.0.2.1", "127.0.0.1"))  # the first one is nobody's
    runner = await serve(port)
    assert await get(f"http://127.0.0.1:{port}/healthz") == (200, "ok")
    await runner.cleanup()
    monkeypatch.setattr(probes, "ANYWHERE", ("192.0.2.1",))
    with pytest.raises(OSError, match=r"192\.0\.2\.1"):
        await serve(port)


async def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket(socket.AF_INET6) as other:
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        other.bind(("::", 0))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            await serve(other.getsockname()[1])


class SlowMetrics:
    """Counts how often it is rendered, and where; ends when the test says so."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.may_end = threading.Event()

    def render(self) -> bytes:
        self.threads.append(threading.current_thread())
        assert self.may_end.wait(10)
        return f"{len(self.threads)}".encode()


async def test_a_hundred_scrapes_render_once_and_not_in_the_event_loop() -> None:
    metrics = SlowMetrics()
    page = probes.MetricsPage(metrics.render)
    scrapes = [asyncio.ensure_future(page.text()) for _ in range(100)]
    await asyncio.sleep(0.01)  # the loop still runs
    scrapes[0].cancel()
    metrics.may_end.set()
    assert set(await asyncio.gather(*scrapes[1:])) == {b"1"}
    assert await page.text() == b"1"
    assert threading.main_thread() not in metrics.threads


async def test_a_later_scrape_renders_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "RENDER_SECONDS", 0.0)
    metrics = SlowMetrics()
    metrics.may_end.set()
    page = probes.MetricsPage(metrics.render)
    assert [await page.text(), await page.text()] == [b"1", b"2"]


async def test_a_failed_rendering_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> bytes:
        raise ValueError("broken")

    monkeypatch.setattr(probes, "RENDER_SECONDS", 0.0)
    page = probes.MetricsPage(broken)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            await page.text()
