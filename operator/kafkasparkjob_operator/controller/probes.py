"""``/healthz``, ``/readyz`` and ``/metrics``; a blocked event loop answers no request."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable

from aiohttp import web

from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.controller.work_queue import WorkQueue

STUCK_WORKER_SECONDS = 120.0
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - see _listen

RENDER_SECONDS = 5.0
"""Age that the text of the metrics may reach; Prometheus scrapes less often."""


class MetricsPage:
    """The text of ``/metrics``, rendered in a thread at most once in :data:`RENDER_SECONDS`, however many ask.

    The series of 5,000 jobs take a second. In the event loop, no Lease would be renewed and no watch read meanwhile.

    :param render: makes the text.
    """

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._rendering: asyncio.Task[bytes] | None = None
        self._rendered_at = 0.0

    async def text(self) -> bytes:
        current = self._rendering
        if current is None or (current.done() and time.monotonic() - self._rendered_at >= RENDER_SECONDS):
            current = self._rendering = asyncio.create_task(asyncio.to_thread(self._render))
            current.add_done_callback(self._note_rendered)
        # One client that goes away does not end the rendering for the others.
        return await asyncio.shield(current)

    def _note_rendered(self, _: object) -> None:
        self._rendered_at = time.monotonic()


def liveness(queue: WorkQueue) -> str:
    """Why Kubernetes should restart the process; empty while it works."""
    active = queue.longest_active_seconds()
    if active > STUCK_WORKER_SECONDS:
        return f"a worker is stuck: it has reconciled a job for {active:.0f} s"
    return ""


async def serve(port: int, *, queue: WorkQueue, metrics: OperatorMetrics, unready: Callable[[], str]) -> web.AppRunner:
    """Starts the HTTP server; the caller cleans the runner up.

    :param unready: why the process is not ready; empty when it is.
    """

    async def healthz(_: web.Request) -> web.Response:
        fault = liveness(queue)
        return web.Response(text=fault or "ok", status=500 if fault else 200)

    async def readyz(_: web.Request) -> web.Response:
        lacking = unready()
        return web.Response(text=lacking or "ok", status=503 if lacking else 200)

    page = MetricsPage(metrics.render)

    async def render(_: web.Request) -> web.Response:
        return web.Response(
            body=await page.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", render)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await _listen(runner, port)
    return runner


async def _listen(runner: web.AppRunner, port: int) -> None:
    """Listens on every address, IPv4 and IPv6: the kubelet and Prometheus use an address of the pod.

    :raises OSError: the port is taken, or the pod has no address family.
    """
    faults: list[OSError] = []
    for anywhere in ANYWHERE:
        try:
            await web.TCPSite(runner, anywhere, port).start()
        except OSError as error:
            if error.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
                raise
            faults.append(error)
    if len(faults) == len(ANYWHERE):
        raise faults[0]
