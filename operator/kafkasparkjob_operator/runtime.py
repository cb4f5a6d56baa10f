"""Puts the operator together and runs it until it is asked to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any

import kopf

from kafkasparkjob_operator import probes
from kafkasparkjob_operator.cache import Cache
from kafkasparkjob_operator.code_watch import CodeWatch
from kafkasparkjob_operator.definition import await_definition
from kafkasparkjob_operator.handlers.jobs import register_jobs
from kafkasparkjob_operator.handlers.pods import register_pods
from kafkasparkjob_operator.handlers.reports import register_reports
from kafkasparkjob_operator.kube import KubeCluster, load_configuration
from kafkasparkjob_operator.leadership import AlwaysLeading, Leadership
from kafkasparkjob_operator.metrics import OperatorMetrics
from kafkasparkjob_operator.reconcile import Reconciler
from kafkasparkjob_operator.settings import Settings
from kafkasparkjob_operator.sweep import Sweep
from kafkasparkjob_operator.watch_boundary import WatchBoundary
from kafkasparkjob_operator.watch_monitor import WatchMonitor
from kafkasparkjob_operator.watching import WATCHED, watch_settings
from kafkasparkjob_operator.work_queue import WorkQueue

LOG = logging.getLogger(__name__)


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT; standing by keeps the watches warm, so that a take-over is quick.

    :raises DefinitionMissing: the resource's definition is not installed.
    :raises Exception: what ended a part that should have run on; the process ends with it and is started anew.
    """
    await _Operator(settings).run()


class _Operator:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cache = Cache()
        self.queue = WorkQueue()
        self.monitor = WatchMonitor()
        self.boundary = WatchBoundary(WATCHED, settings.watch_namespaces, self._watch_refused)
        self.metrics = OperatorMetrics(self.cache, tells_of_jobs=lambda: self.leadership.leading)
        self.cluster = KubeCluster(
            load_configuration(connections=settings.connections),
            connections=settings.connections,
            observe=self.metrics.observe_request,
            may_act=lambda: self.leadership.leading,
        )
        # With a thread and a connection of its own: a renewal must not wait behind the jobs' requests.
        self.lease_cluster = KubeCluster(
            load_configuration(connections=1), connections=1, observe=self.metrics.observe_request
        )
        self.leadership: Leadership | AlwaysLeading
        if settings.leader_election:
            self.leadership = Leadership(
                self.lease_cluster, namespace=settings.namespace, name=settings.lease_name, identity=settings.identity,
                changed=self._leadership_changed,
            )  # fmt: skip
        else:
            self.leadership = AlwaysLeading(self._leadership_changed)
        self.reconciler = Reconciler(
            self.cluster, self.cache, self.queue, metrics=self.metrics, monitor=self.monitor,
            may_act=lambda: self.leadership.leading, resync_seconds=settings.resync_seconds,
            numbers_seconds=settings.numbers_seconds,
        )  # fmt: skip
        self.metrics.gauge("kafkaspark_operator_jobs", "Jobs known.", lambda: len(self.cache))
        self.metrics.gauge("kafkaspark_operator_queue_depth", "Jobs waiting to be looked at.", lambda: len(self.queue))
        self.metrics.gauge(
            "kafkaspark_operator_watch_last_event_age_seconds", "Since any watch told anything.",
            lambda: self.monitor.last_event_age_seconds,
        )  # fmt: skip
        self.metrics.gauge(
            "kafkaspark_operator_watch_behind_seconds", "How long the watch has owed a known change.",
            self.monitor.behind_seconds,
        )  # fmt: skip

    def _leadership_changed(self, leading: bool) -> None:
        self.metrics.leader.set(1 if leading else 0)
        if leading:
            self.reconciler.forget_looks()
            for key in self.cache.keys:
                self.queue.add(key)

    def _watch_refused(self, kind: str, namespace: str, refused: bool) -> None:
        self.metrics.watch_refused.labels(resource=kind, namespace=namespace).set(1 if refused else 0)

    async def run(self) -> None:
        kopf_runs = asyncio.Event()
        stop = asyncio.Event()
        http = await probes.serve(
            self.settings.http_port, queue=self.queue, monitor=self.monitor, metrics=self.metrics,
            unready=self.boundary.unready,
        )  # fmt: skip
        # Made before kopf's: it cancels whatever was begun after it, and the last writes must be ours to end.
        parts = [self._part("leadership", self.leadership.run(), stop)]
        parts += [self._part(f"worker {n}", self.reconciler.work(), stop) for n in range(self.settings.workers)]
        parts.append(
            self._part(
                "sweep",
                Sweep(self.cluster, self.cache, self.queue, self.monitor, self.settings.watch_namespaces).run(
                    self.settings.resync_seconds
                ),
                stop,
            )
        )  # fmt: skip
        parts.append(self._part("code", CodeWatch(self.cluster, self.cache, self.queue).run(), stop))
        parts.append(asyncio.create_task(_take_signals(stop, kopf_runs=kopf_runs), name="signals"))
        try:
            await self._watch(stop, kopf_runs)
        finally:
            for part in parts:
                part.cancel()
            ended = await asyncio.gather(*parts, return_exceptions=True)
            await self.leadership.release()
            await http.cleanup()
            self.cluster.close()
            self.lease_cluster.close()
        for fault in ended:
            if isinstance(fault, Exception):
                raise fault

    async def _watch(self, stop: asyncio.Event, kopf_runs: asyncio.Event) -> None:
        """Kopf's lists and watches; returns on a signal or when ``stop`` is set."""
        if not await await_definition(self.cluster.serves_jobs, stop):
            return
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(kopf.login_via_client)
        for register in (register_jobs, register_pods, register_reports):
            register(registry, self.cache, self.queue, self.monitor)
        with self.boundary.around_kopf():
            await kopf.operator(
                registry=registry,
                settings=watch_settings(),
                standalone=True,
                clusterwide=not self.settings.watch_namespaces,
                namespaces=self.settings.watch_namespaces,
                stop_flag=stop,
                ready_flag=kopf_runs,
            )

    @staticmethod
    def _part(name: str, work: Coroutine[Any, Any, None], stop: asyncio.Event) -> asyncio.Task[None]:
        """A part that runs as long as the operator; its unexpected end ends the operator."""
        task = asyncio.create_task(work, name=name)

        def ended(done: asyncio.Task[None]) -> None:
            if not done.cancelled():
                LOG.error("%s has ended: %r", name, done.exception())
            stop.set()

        task.add_done_callback(ended)
        return task


async def _take_signals(stop: asyncio.Event, *, kopf_runs: asyncio.Event) -> None:
    """SIGTERM and SIGINT; taken back from kopf, whose own way to stop waits 5 s for the flag that it was given."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await kopf_runs.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
