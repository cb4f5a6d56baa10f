"""``/healthz``, ``/readyz`` and ``/metrics``; a blocked event loop answers none of them."""

from __future__ import annotations

import errno
from collections.abc import Callable

from aiohttp import web

from kafkasparkjob_operator.metrics import OperatorMetrics
from kafkasparkjob_operator.watch_monitor import WatchMonitor
from kafkasparkjob_operator.work_queue import WorkQueue

STUCK_WORKER_SECONDS = 120.0
STUCK_WATCH_SECONDS = 90.0
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - see _listen


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
    await _listen(runner, port)
    return runner


async def _listen(runner: web.AppRunner, port: int) -> None:
    """On every address of each family that the pod has: the kubelet and Prometheus come by the pod's, IPv4 or IPv6.

    :raises OSError: the port is taken, or there is no family to have it in.
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
