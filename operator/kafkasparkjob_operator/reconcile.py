"""One job, looked at and brought forward: observe, plan, carry out, write down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kafkasparkjob_operator import clock
from kafkasparkjob_operator.cache import Cache
from kafkasparkjob_operator.cluster import (
    Cluster,
    ClusterError,
    NotLeading,
    ObjectConflict,
    ObjectExists,
    ObjectRefused,
)
from kafkasparkjob_operator.code_watch import digest_of
from kafkasparkjob_operator.event_recorder import EventRecorder
from kafkasparkjob_operator.events import JobEvent
from kafkasparkjob_operator.execute import Executor, FormerObjectInTheWay, PodNameTaken
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.merge_patch import merge_patch
from kafkasparkjob_operator.metrics import OperatorMetrics
from kafkasparkjob_operator.observation import JobResource, Observation, job_resource, live_observation
from kafkasparkjob_operator.phases import plan
from kafkasparkjob_operator.plan import (
    CreateState,
    DeleteAttemptRecord,
    DeletePod,
    GiveTurn,
    Plan,
    StartAttempt,
    WithdrawClaim,
)
from kafkasparkjob_operator.refusals import failed_start, refused_start, refused_successor, taken_name
from kafkasparkjob_operator.watch_monitor import WatchMonitor
from kafkasparkjob_operator.work_queue import WorkQueue
from sparkapp.model import names

LOG = logging.getLogger(__name__)

NUMBERS = ("checkpoint", "source", "sink", "transactions")
"""Sections of the status that change with every checkpoint; alone they are written with a pause in between."""
FAILURES_UNTOLD = 1
"""Requests for a start that fail in a row, a quorum lost for a moment, before the job's resource tells of them."""


class Reconciler:
    """Takes jobs from the queue and brings each forward. Any number of workers run :meth:`work`.

    :param may_act: asked before every write; False leaves everything as it is.
    :param resync_seconds: after this time a job is looked at live again.
    :param numbers_seconds: pause between two writes of progress numbers alone.
    :param now: the wall clock.
    """

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        queue: WorkQueue,
        *,
        metrics: OperatorMetrics,
        monitor: WatchMonitor,
        may_act: Callable[[], bool],
        resync_seconds: float = 300,
        numbers_seconds: float = 5,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._metrics = metrics
        self._monitor = monitor
        self._may_act = may_act
        self._resync_seconds = resync_seconds
        self._numbers_seconds = numbers_seconds
        self._now = now
        self._executor = Executor(cluster, may_act)
        self._recorder = EventRecorder(self._executor.guard, dropped=metrics.observe_dropped_event, now=now)
        self._looked_at: dict[JobKey, float] = {}
        self._written_at: dict[JobKey, float] = {}
        self._failed_starts: dict[JobKey, int] = {}

    def forget_looks(self) -> None:
        """Leadership has just been gained: whatever was known may be old."""
        self._looked_at.clear()

    async def work(self) -> None:
        """A worker; runs until cancelled."""
        while True:
            key = await self._queue.take()
            try:
                if self._may_act():
                    await self._attend(key)
            finally:
                self._queue.done(key)

    async def _attend(self, key: JobKey) -> None:
        began = time.monotonic()
        result = "error"
        try:
            await self.reconcile(key)
            self._queue.succeeded(key)
            result = "ok"
        except NotLeading:
            result = "not_leading"
        except (ObjectConflict, ObjectExists, FormerObjectInTheWay) as error:
            # Not a fault: somebody else wrote, or Kubernetes needs a moment. Look again, at the API server.
            self._looked_at.pop(key, None)
            LOG.debug("%s: %s", key, error.message)
            self._queue.failed(key)
            result = "conflict"
        except ClusterError as error:
            self._looked_at.pop(key, None)
            LOG.warning("%s: %s; again in %.1f s", key, error.message, self._queue.failed(key))
        except Exception:
            # A worker must outlive whatever one job does to it.
            self._looked_at.pop(key, None)
            LOG.exception("%s: unexpected; again in %.1f s", key, self._queue.failed(key))
        finally:
            self._metrics.reconcile_seconds.labels(result=result).observe(time.monotonic() - began)

    async def reconcile(self, key: JobKey) -> None:
        """Looks at a job once and does what follows from it.

        :raises ClusterError: and its subclasses; the caller decides when to try again.
        """
        observation, the_plan = await self._decide(key)
        if observation is None or the_plan.status is None:
            if observation is None:
                self._forget(key)
            return
        status = await self._create(observation, the_plan)
        await self._tell(observation.job, status, the_plan.events)
        for action in the_plan.actions:
            if isinstance(action, DeletePod):
                await self._executor.delete_pod(action, observation.job.identity)
            elif isinstance(action, DeleteAttemptRecord):
                await self._executor.delete_record(action, observation.job.identity)
        if the_plan.look_again_after is not None:
            self._queue.add_after(key, the_plan.look_again_after + 0.05)

    async def _decide(self, key: JobKey) -> tuple[Observation | None, Plan]:
        """From the cache where that is enough, else, and before anything is created or deleted, from a live look."""
        if time.monotonic() - self._looked_at.get(key, -self._resync_seconds) < self._resync_seconds:
            observation = self._cache.observe(key)
            if observation is not None:
                the_plan = plan(observation, self._now())
                if not the_plan.needs_live and not the_plan.actions:
                    return observation, the_plan
        observation = await self._look(key)
        return observation, plan(observation, self._now()) if observation is not None else Plan()

    async def _look(self, key: JobKey) -> Observation | None:
        told = self._cache.told(key)
        body = await self._cluster.get_job(key)
        if body is None:
            return None
        # In this order: a pod of the status, and the ConfigMap of a pod, are then never taken for missing.
        pods = await self._cluster.list_pods(key)
        config_maps = await self._cluster.list_config_maps(key)
        state = names.state_config_map(key.name)
        if all(config_map["metadata"]["name"] != state for config_map in config_maps):
            # One that somebody else made has no label of ours: it must be seen before we try to make our own.
            found = await self._cluster.get("ConfigMap", key.namespace, state)
            config_maps = [*config_maps, *([found] if found is not None else [])]
        code = await digest_of(self._cluster, job_resource(body))
        self._monitor.looked(key, str(body["metadata"].get("resourceVersion", "")))
        named = names.report_config_map(key.name)
        report = next((one for one in config_maps if one["metadata"]["name"] == named), None)
        observation = live_observation(
            body, pods, config_maps, code=code, report_age=self._cache.report_age(key, report),
            ended_driver=self._cache.ended_driver(key, job_resource(body).driver_uid),
        )  # fmt: skip
        self._cache.put_code(key, code)
        if self._cache.put_look(body, observation.pods, report, since=told, claims=observation.claims):
            self._looked_at[key] = time.monotonic()
        else:
            # What the watch has told is queued already, and is then looked at live.
            self._looked_at.pop(key, None)
        return replace(observation, prefix_rival=self._cache.prefix_rival(key))

    async def _create(self, observation: Observation, the_plan: Plan) -> Mapping[str, Any]:
        """Carries out what creates, and what must be done before; the status that follows."""
        job = observation.job
        try:
            return await self._carry_out(job, the_plan)
        except ObjectRefused as error:
            refused_status, event = refused_start(job, error.message, self._now())
            await self._tell(job, refused_status, (event,))
            raise
        except PodNameTaken as error:
            if not any(isinstance(one, StartAttempt) and _beside(one) for one in the_plan.actions):
                status, event = taken_name(job, error.message, self._now())
                await self._tell(job, status, (event,))
            raise
        except (ObjectConflict, ObjectExists, FormerObjectInTheWay, NotLeading):
            raise
        except ClusterError as error:
            if any(isinstance(one, StartAttempt | GiveTurn) and not _beside(one) for one in the_plan.actions):
                await self._start_failed(job, error)
            raise

    async def _carry_out(self, job: JobResource, the_plan: Plan) -> Mapping[str, Any]:
        status = dict(the_plan.status or {})
        for action in the_plan.actions:
            if isinstance(action, CreateState):
                await self._executor.create_state(action, job.identity)
            elif isinstance(action, WithdrawClaim):
                await self._executor.delete_record(action, job.identity)
            elif isinstance(action, GiveTurn):
                await self._executor.give_turn(action, job.identity)
            elif isinstance(action, StartAttempt) and action.awaits_turn:
                status = await self._start_successor(job, action, status)
            elif isinstance(action, StartAttempt):
                pod = await self._executor.start(action, job.identity)
                self._failed_starts.pop(job.identity.key, None)
                status["attempt"] = {**status["attempt"], "driverPodUID": pod["metadata"]["uid"]}
                if job.created is not None and not job.status.get("attempt"):
                    self._metrics.start_seconds.observe((self._now() - job.created).total_seconds())
        return status

    async def _start_failed(self, job: JobResource, error: ClusterError) -> None:
        """Counted until an attempt starts: a look that only waits for the outcome of the last try ends nothing."""
        key = job.identity.key
        self._failed_starts[key] = self._failed_starts.get(key, 0) + 1
        if self._failed_starts[key] <= FAILURES_UNTOLD:
            return
        status, event = failed_start(job, error.message, self._now())
        await self._tell(job, status, (event,))

    async def _start_successor(
        self, job: JobResource, action: StartAttempt, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A successor that Kubernetes refuses is done without: the attempt that runs is none the worse for it."""
        try:
            await self._executor.start(action, job.identity)
        except ObjectRefused as error:
            refused_status, event = refused_successor(status, action, error.message)
            await self._recorder.record(job, (event,))
            return refused_status
        return dict(status)

    async def _tell(self, job: JobResource, status: Mapping[str, Any], events: tuple[JobEvent, ...]) -> None:
        """Events first: who reads the status finds them there, and none is lost if the operator dies in between. What
        Kubernetes does not take at once is dropped."""
        await self._recorder.record(job, events)
        await self._write(job.identity.key, job, status)

    async def _write(self, key: JobKey, job: JobResource, status: Mapping[str, Any]) -> None:
        patch = merge_patch(job.status, status)
        if not patch:
            return
        moment = asyncio.get_running_loop().time()
        if all(name in NUMBERS for name in patch):
            left = self._written_at.get(key, -self._numbers_seconds) + self._numbers_seconds - moment
            if left > 0:
                self._queue.add_after(key, left)
                return
        self._written_at[key] = moment
        cached = self._cache.version(key)
        body = await self._executor.guard().patch_status(key, patch, resource_version=job.resource_version)
        if body is not None:
            self._cache.put_answer(body, instead_of=cached)

    def _forget(self, key: JobKey) -> None:
        self._looked_at.pop(key, None)
        self._written_at.pop(key, None)
        self._recorder.forget(key)
        self._failed_starts.pop(key, None)
        self._cache.forget(key)
        self._monitor.forget(key)
        self._queue.forget(key)


def _beside(action: StartAttempt | GiveTurn) -> bool:
    """True where another attempt runs meanwhile, whatever becomes of this one."""
    return isinstance(action, StartAttempt) and action.awaits_turn
