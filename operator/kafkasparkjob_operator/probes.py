"""``/healthz``, ``/readyz`` and ``/metrics``; a blocked event loop answers none of them."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from kafkasparkjob_operator.metrics import OperatorMetrics
from kafkasparkjob_operator.watch_monitor import WatchMonitor
from kafkasparkjob_operator.work_queue import WorkQueue

STUCK_WORKER_SECONDS = 120.0
STUCK_WATCH_SECONDS = 90.0


def liveness(queue: WorkQueue, monitor: WatchMonitor) -> str:
    """Why the process should be started anew; empty while it is well."""
    active = queue.longest_active_seconds()
    if active > STUCK_WORKER_SECONDS:
        return f"a worker has been at one job for {active:.0f} s"
    behind = monitor.behind_seconds()
    if behind > STUCK_WATCH_SECONDS:
        return f"the watch has been behind the API server for {behind:.0f} s"
    return ""


async def serve(
    port: int, *, queue: WorkQueue, monitor: WatchMonitor, metrics: OperatorMetrics, unready: Callable[[], str]
) -> web.AppRunner:
    """Starts the HTTP server; the caller cleans the runner up.

    :param unready: what is still lacking; empty when the process is ready.
    """

    async def healthz(_: web.Request) -> web.Response:
        fault = liveness(queue, monitor)
        return web.Response(text=fault or "ok", status=500 if fault else 200)

    async def readyz(_: web.Request) -> web.Response:
        lacking = unready()
        return web.Response(text=lacking or "ok", status=503 if lacking else 200)

    async def render(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", render)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()  # noqa: S104 - the kubelet and Prometheus come from outside
    return runner
