"""Puts the operator together and runs it until it is asked to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from functools import partial
from typing import Any

import kopf

from kafkasparkjob_operator.controller import probes
from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.controller.reconcile import Reconciler
from kafkasparkjob_operator.controller.sweep import Sweep
from kafkasparkjob_operator.controller.watches.code_watch import CodeWatch
from kafkasparkjob_operator.controller.watches.handlers import Handlers, snapshot_handler
from kafkasparkjob_operator.controller.watches.kopf_settings import OF_JOBS, OF_SNAPSHOTS, watch_settings, watches_of
from kafkasparkjob_operator.controller.watches.kopf_watch_patch import WatchBoundary
from kafkasparkjob_operator.controller.watches.namespaces import SelectedNamespaces
from kafkasparkjob_operator.controller.watches.retention import Retention
from kafkasparkjob_operator.controller.watches.snapshots import Snapshots
from kafkasparkjob_operator.controller.watches.state_pins import StatePins
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.decisions.state_machine import plan
from kafkasparkjob_operator.kubernetes.client import KubeCluster, load_configuration
from kafkasparkjob_operator.kubernetes.definition import await_definition
from kafkasparkjob_operator.kubernetes.leadership import AlwaysLeading, Leadership
from kafkasparkjob_operator.settings import Settings
from kafkasparkjob_operator.workload import read_job_settings
from sparkapp.model import names

LOG = logging.getLogger(__name__)


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. A replica that does not lead keeps its watches, so that a take-over is quick.

    :raises ConfigurationError: the administrator's settings for jobs cannot work.
    :raises DefinitionMissing: the resource's definition is not installed.
    :raises Exception: the error that ended a part of the operator; the process ends, and Kubernetes restarts it.
    """
    await _Operator(settings).run()


class _Operator:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        jobs = read_job_settings(settings)
        self.cache = Cache(prefixes=settings.transactional_id_prefixes, settings=jobs)
        self.queue = WorkQueue(share=_share(settings))
        self.boundary = WatchBoundary(
            tuple(plural for _, _, plural in OF_JOBS), settings.watch_namespaces, self._watch_refused
        )
        self.metrics = OperatorMetrics(self.cache, exports_jobs=lambda: self.leadership.leading)
        self.cluster = KubeCluster(
            load_configuration(connections=settings.connections),
            connections=settings.connections,
            observe=self.metrics.observe_request,
            may_act=lambda: self.leadership.leading,
        )
        self.namespaces = SelectedNamespaces(self.cluster, self.cache, self.queue, settings.watch_namespace_selector)
        # With a thread and a connection of its own, so that a renewal does not wait behind the jobs' requests.
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
            self.cluster, self.cache, self.queue, metrics=self.metrics,
            may_act=lambda: self.leadership.leading, includes=self.namespaces.includes,
            numbers_seconds=settings.numbers_seconds, network_rules=settings.network_rules,
            driver_policy=settings.driver_policy, concurrent_restarts=settings.concurrent_restarts,
            decide=partial(plan, deletion_seconds=settings.deletion_seconds, settings=jobs),
        )  # fmt: skip
        self.sweep = Sweep(
            self.cluster, self.cache, self.queue, settings.watch_namespaces, self.namespaces.includes,
            looked_at=self.reconciler.looked_at, may_act=lambda: self.leadership.leading,
        )  # fmt: skip
        self.snapshots = Snapshots(
            self.cluster, may_act=lambda: self.leadership.leading, includes=self.namespaces.includes
        )
        self.retention = Retention(
            self.cluster, report=self.cache.fresh_report, may_act=lambda: self.leadership.leading,
            includes=self.namespaces.includes,
        )  # fmt: skip
        self.pins = StatePins(
            self.cluster, jobs=lambda: self.cache.stateful, may_act=lambda: self.leadership.leading,
            includes=self.namespaces.includes,
        )  # fmt: skip
        self.metrics.gauge("kafkaspark_operator_jobs", "Jobs known.", lambda: len(self.cache))
        self.metrics.gauge("kafkaspark_operator_queue_depth", "Jobs waiting to be reconciled.", lambda: len(self.queue))

    def _leadership_changed(self, leading: bool) -> None:
        self.metrics.leader.set(1 if leading else 0)
        if leading:
            self.reconciler.forget_looks()
            self.cache.restart_ages()
            self.sweep.begin()
            for key in self.cache.keys:
                self.queue.add(key)

    def _watch_refused(self, kind: str, namespace: str, refused: bool) -> None:
        self.metrics.watch_refused.labels(resource=kind, namespace=namespace).set(1 if refused else 0)

    async def run(self) -> None:
        kopf_runs = asyncio.Event()
        stop = asyncio.Event()
        http = await probes.serve(
            self.settings.http_port, queue=self.queue, metrics=self.metrics,
            unready=self.boundary.unready,
        )  # fmt: skip
        # Started before kopf, which cancels every later task; the operator itself ends its last writes.
        parts = [self._part("leadership", self.leadership.run(), stop)]
        parts += [self._part(f"worker {n}", self.reconciler.work(), stop) for n in range(self.settings.workers)]
        parts.append(self._part("sweep", self.sweep.run(self.settings.resync_seconds), stop))
        parts.append(self._part("namespaces", self.namespaces.run(), stop))
        parts.append(self._part("code", CodeWatch(self.cluster, self.cache, self.queue).run(), stop))
        parts.append(self._part("snapshots", self.snapshots.run(), stop))
        parts.append(self._part("retention", self.retention.run(), stop))
        parts.append(self._part("pins", self.pins.run(), stop))
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
        """Runs kopf's lists and watches; returns on a signal or when ``stop`` is set."""
        if not await await_definition(self.cluster.serves_jobs, stop):
            return
        handlers, kinds = Handlers(self.cache, self.queue, self.namespaces.includes).by_plural, OF_JOBS
        if await self.cluster.serves_snapshots():
            kinds = (*kinds, OF_SNAPSHOTS)
            handlers[names.SNAPSHOT_PLURAL] = snapshot_handler(
                self.cache, self.queue, snapshots=self.snapshots, retention=self.retention, pins=self.pins
            )
        else:
            LOG.warning(
                "the API server does not serve %s, so nobody makes snapshots; install the definition and restart the"
                " operator: kubectl apply -f crds/%s.yaml", names.SNAPSHOT_PLURAL, names.SNAPSHOT_PLURAL,
            )  # fmt: skip
        async with self.boundary.around_kopf(handlers):
            await kopf.operator(
                registry=watches_of(kinds),
                settings=watch_settings(),
                standalone=True,
                clusterwide=not self.settings.watch_namespaces,
                namespaces=self.settings.watch_namespaces,
                stop_flag=stop,
                ready_flag=kopf_runs,
            )

    @staticmethod
    def _part(name: str, work: Coroutine[Any, Any, None], stop: asyncio.Event) -> asyncio.Task[None]:
        """Runs a part for as long as the operator; its unexpected end ends the operator."""
        task = asyncio.create_task(work, name=name)

        def ended(done: asyncio.Task[None]) -> None:
            if not done.cancelled():
                LOG.error("%s ended unexpectedly: %r", name, done.exception())
            stop.set()

        task.add_done_callback(ended)
        return task


def _share(settings: Settings) -> int | None:
    """Workers that a namespace may have: some stay free for the others, where there are others."""
    if len(settings.watch_namespaces) == 1:
        return None
    return max(1, settings.workers - max(1, settings.workers // 4))


async def _take_signals(stop: asyncio.Event, *, kopf_runs: asyncio.Event) -> None:
    """Handles SIGTERM and SIGINT instead of kopf, whose handlers wait 5 s for the stop flag."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await kopf_runs.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
