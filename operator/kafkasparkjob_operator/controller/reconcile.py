"""Reconciles a job: observe, plan, execute, write the status."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from kafkasparkjob_operator import clock
from kafkasparkjob_operator.controller import refusals
from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.event_recorder import EventRecorder
from kafkasparkjob_operator.controller.job_objects.plan_runner import PlanRunner
from kafkasparkjob_operator.controller.live_look import look_at
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.controller.requests.hold import Hold
from kafkasparkjob_operator.controller.requests.quotas import Quotas
from kafkasparkjob_operator.controller.requests.snapshots import SnapshotRequests
from kafkasparkjob_operator.controller.watches.code_watch import digest_of
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.decisions.attempts import REVISION, Unsettled
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.scaling import AUTOSCALER
from kafkasparkjob_operator.decisions.lifecycle.deletion import NAMESPACE_ENDS
from kafkasparkjob_operator.decisions.lifecycle.left_behind import left_open
from kafkasparkjob_operator.decisions.plan import (
    Action,
    Activate,
    AskForScale,
    DeleteAttemptRecord,
    DeletePod,
    DeleteResource,
    NumberFailure,
    Plan,
    ReleaseResource,
    StartAttempt,
)
from kafkasparkjob_operator.decisions.state_machine import plan
from kafkasparkjob_operator.identity import ANNOTATION_REVISION, JobKey
from kafkasparkjob_operator.kubernetes.merge_patch import merge_patch
from kafkasparkjob_operator.kubernetes.port import (
    Cluster,
    ClusterError,
    NotLeading,
    ObjectConflict,
    ObjectExists,
    ObjectRefused,
)
from kafkasparkjob_operator.observation.observation import JobResource, Observation, job_resource, live_observation
from kafkasparkjob_operator.observation.restarting import RestartingJobs, restarting
from kafkasparkjob_operator.settings import NetworkRules
from kafkasparkjob_operator.status.events import JobEvent

LOG = logging.getLogger(__name__)

NUMBERS = ("checkpoint", "source", "sink", "transactions")
"""Sections of the status that change with every checkpoint; a write of these alone is throttled."""
_AT_ONCE = frozenset({"since", "moreWantedSince"})
"""Fields of ``status.autoscaler`` that are written at once: a decision, and the begin of a need."""
RETRY_SECONDS = 10.0
"""The pause after a failed request for a running attempt."""
HELP: tuple[tuple[type[Action], ...], ...] = ((NumberFailure,), (AskForScale,), (Activate,), (StartAttempt,))
"""What helps a running attempt. A failure leaves out the rest of its group."""


class Reconciler:
    """Takes jobs from the queue and reconciles them. Any number of workers run :meth:`work`.

    :param may_act: called before every write; False forbids it.
    :param includes: False for a namespace whose jobs are ignored.
    :param numbers_seconds: minimum seconds between two writes of progress numbers alone.
    :param decide: the state machine with the operator's settings.
    :param network_rules: of the jobs' NetworkPolicies; none for no policies.
    :param driver_policy: the admission policy that confines the jobs' drivers; empty for those of all releases.
    :param concurrent_restarts: jobs that may restart unasked at the same time; 0 for any number.
    :param now: the wall clock.
    """

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        queue: WorkQueue,
        *,
        metrics: OperatorMetrics,
        may_act: Callable[[], bool],
        includes: Callable[[str], bool] = lambda _: True,
        numbers_seconds: float = 5,
        decide: Callable[[Observation, datetime], Plan] = plan,
        network_rules: NetworkRules | None = None,
        driver_policy: str = "",
        concurrent_restarts: int = 0,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._metrics = metrics
        self._may_act, self._includes = may_act, includes
        self._numbers_seconds = numbers_seconds
        self._plan, self._now = decide, now
        self._runner = PlanRunner(cluster, may_act, network_rules or {}, driver_policy)
        dropped, throttled = metrics.observe_dropped_event, metrics.events_throttled.inc
        self._recorder = EventRecorder(self._runner.guard, dropped=dropped, throttled=throttled, now=now)
        self._restarting = RestartingJobs(concurrent_restarts, clock=time.monotonic, wake=queue.add)
        self._quotas = Quotas(cluster)
        self._hold = Hold(self._runner, self._recorder, cache)
        self._snapshots = SnapshotRequests(self._runner, self._recorder, cache, now=now)
        self._looked_at: dict[JobKey, float] = {}
        self._written_at: dict[JobKey, float] = {}
        self._failures = refusals.Failures()

    def forget_looks(self) -> None:
        """Leadership has just been gained, so the cache may be old."""
        self._looked_at.clear()

    def looked_at(self, key: JobKey) -> float:
        """Monotonic seconds at which the last live look that the cache holds began. Called by the sweep."""
        return self._looked_at.get(key, -math.inf)

    async def work(self) -> None:
        """Runs a worker until cancelled."""
        while True:
            key = await self._queue.take()
            try:
                if not self._includes(key.namespace):
                    self._forget(key)
                elif self._may_act():
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
        except (ObjectConflict, ObjectExists, refusals.ObjectAwaitsCollection) as error:
            # Not a fault: another process wrote, or Kubernetes needs a moment. The next look is live.
            self._looked_at.pop(key, None)
            LOG.debug("%s: %s", key, error.message)
            self._queue.failed(key)
            result = "conflict"
        except ClusterError as error:
            self._looked_at.pop(key, None)
            LOG.warning("%s: %s; retry in %.1f s", key, error.message, self._queue.failed(key))
        except Exception:
            # An error of a job must not end the worker.
            self._looked_at.pop(key, None)
            LOG.exception("%s: reconcile failed unexpectedly; retry in %.1f s", key, self._queue.failed(key))
        finally:
            self._metrics.reconcile_seconds.labels(result=result).observe(time.monotonic() - began)

    async def reconcile(self, key: JobKey) -> None:
        """Reconciles a job once.

        :raises ClusterError: and its subclasses; the caller decides when to retry.
        """
        observation, the_plan = await self._decide(key)
        self._count_restart(key, the_plan)
        if observation is None or the_plan.status is None:
            if observation is None:
                self._forget(key)
            return
        if observation.job.deleting and ReleaseResource() in the_plan.actions:
            await self._hold.release(observation.job, the_plan.events)
            return
        observation = await self._hold.changed(observation, the_plan)
        self._failures.looked(observation, the_plan)
        prepare = self._start if the_plan.starts else self._assist
        prepared = await prepare(observation.job, the_plan)
        try:
            status = await self._snapshots.carry_out(observation.job, the_plan, prepared)
        except ObjectRefused as error:  # the namespace ends
            await self._hold.release(observation.job, (refusals.no_last_snapshot(error.message),))
            return
        if status is not prepared:  # the plan does not know of the refusal
            self._queue.add_after(key, RETRY_SECONDS)
        await self._publish(observation.job, status, the_plan.events)
        for action in the_plan.actions:
            if isinstance(action, DeletePod):
                await self._runner.delete_pod(action, observation.job.identity)
            elif isinstance(action, DeleteAttemptRecord):
                await self._runner.delete_record(action, observation.job.identity)
            elif isinstance(action, DeleteResource):
                await self._hold.expire(observation.job)
        self._await_time(key, the_plan)

    def _await_time(self, key: JobKey, the_plan: Plan) -> None:
        """Queues the job for when time alone may change the plan."""
        for seconds in (the_plan.look_again_after, the_plan.silence.change_after):
            if seconds is not None:
                self._queue.add_after(key, seconds + 0.05)
        limit = the_plan.silence.silent_at
        self._queue.add_when(key, None if limit is None else lambda: limit + 0.05 - self._cache.ages(key).report)

    async def _decide(self, key: JobKey) -> tuple[Observation | None, Plan]:
        """Plans, and once more with the quotas of the namespace where the plan asks for them."""
        observation, the_plan = await self._first_plan(key)
        if observation is not None and the_plan.asks_room:
            observation = replace(observation, quotas=await self._quotas.of(key.namespace))
            the_plan = self._planned(observation)
        return observation, the_plan

    async def _first_plan(self, key: JobKey) -> tuple[Observation | None, Plan]:
        """Plans from the cache where it is enough; before anything is created or deleted, from a live look."""
        changed = self._cache.take_access_change(key)
        if not changed and key in self._looked_at:
            observation = self._cache.observe(key)
            if observation is not None:
                the_plan = self._planned(observation)
                if not the_plan.needs_live and not the_plan.actions:
                    return observation, the_plan
        observation = await self._look(key)
        job = None if observation is None else observation.job
        if observation is not None and observation.live is not None and job and not (job.deleting or job.paused):
            identity = observation.job.identity
            try:
                await self._runner.standing.repair(identity, observation.live.references(identity))
            except (ObjectRefused, refusals.ObjectAwaitsCollection) as error:
                # A running job needs no repair to continue.
                LOG.warning("%s: an object of the job is not repaired: %s", key, error.message)
        return observation, self._planned(observation) if observation is not None else Plan()

    def _planned(self, observation: Observation) -> Plan:
        may_restart = self._restarting.has_room(observation.job.identity.key)
        return self._plan(replace(observation, may_restart=may_restart), self._now())

    def _count_restart(self, key: JobKey, the_plan: Plan) -> None:
        """Without a pause after :meth:`_planned`, so that no other worker finds the same room."""
        if the_plan.restarts:
            self._restarting.began(key)
        elif the_plan.awaits_restart:
            self._restarting.waits(key)
        elif the_plan.status is not None and not restarting(the_plan.status):
            self._restarting.ended(key)

    async def _look(self, key: JobKey) -> Observation | None:
        changes, began = self._cache.changes(key), time.monotonic()
        found = await look_at(self._cluster, key, failed=self._cache.restart_ages)
        if found is None:
            return None
        job = job_resource(found.body)
        code = await digest_of(self._cluster, job)
        observation = live_observation(
            found.body, found.pods, found.config_maps, code=code,
            ages=self._cache.ages(key, found.report),
            ended_driver=self._cache.ended_driver(key, job.driver_uid), taken=self._failures.taken(key),
        )  # fmt: skip
        if self._cache.put_look(
            found.body, observation.pods, found.report, since=changes, claims=observation.claims, code=code
        ):
            self._looked_at[key] = began
        else:
            # The watch has already queued the newer event; the next look is live.
            self._looked_at.pop(key, None)
        refused = self._cache.standby_refused(key, job.driver_uid)
        return replace(
            observation, prefix_refusal=self._cache.prefix_refusal(key), standby_refused=refused,
            snapshots=self._cache.snapshots(key),
        )  # fmt: skip

    async def _start(self, job: JobResource, the_plan: Plan) -> Mapping[str, Any]:
        """Executes what the next attempt needs, its driver last; returns the new status."""
        status = dict(the_plan.status or {})
        try:
            for action in the_plan.actions:
                pod = await self._runner.run(action, job.identity)
                if pod is not None:
                    revision = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_REVISION)
                    started = {"driverPodUID": pod["metadata"]["uid"], **({REVISION: revision} if revision else {})}
                    status["attempt"] = {**status["attempt"], **started}
        except NotLeading:
            raise
        except ClusterError as error:
            if job.deleting and isinstance(error, ObjectRefused) and NAMESPACE_ENDS in error.message:
                await self._hold.release(job, (left_open(job, error.message, left=Unsettled()),))
            if self._failures.lasts(job.identity.key, error) or isinstance(error, refusals.AT_ONCE):
                failed, event = refusals.not_started(job, error, self._now())
                await self._publish(job, failed, (event,))
            raise
        self._failures.ended(job.identity.key)
        if job.created is not None and not job.status.get("attempt"):
            self._metrics.start_seconds.observe((self._now() - job.created).total_seconds())
        return status

    async def _assist(self, job: JobResource, the_plan: Plan) -> Mapping[str, Any]:
        """Runs the optional actions of a running attempt; a failure never delays the status. Returns the new status."""
        status = dict(the_plan.status or {})
        for kinds in HELP:
            for action in (action for action in the_plan.actions if isinstance(action, kinds)):
                try:
                    await self._runner.run(action, job.identity)
                except NotLeading:
                    raise
                except ClusterError as error:
                    LOG.warning("%s: the attempt does without: %s", job.identity.key, error.message)
                    await self._do_without(job, action, status, error)
                    break
                if isinstance(action, StartAttempt):
                    await self._recorder.record(job, (refusals.started_standby(action),))
                if isinstance(action, AskForScale | StartAttempt):
                    self._failures.ended(job.identity.key)
        return status

    async def _do_without(self, job: JobResource, action: Action, status: dict[str, Any], error: ClusterError) -> None:
        if isinstance(action, NumberFailure):  # a failure counts when its number is on the pod
            status["executors"] = {**status["executors"], "failed": action.number - 1}
            return
        if isinstance(action, Activate):  # it is activated when the attempt's pods are gone
            return
        key = job.identity.key
        self._queue.add_after(key, RETRY_SECONDS)
        if not self._failures.lasts(key, error):
            return
        if isinstance(action, AskForScale):
            await self._recorder.record(job, (refusals.refused_scale(job, action, error.message),))
            return
        await self._recorder.record(job, (refusals.refused_standby(job, error.message),))
        self._failures.ended(key)
        lasts = isinstance(error, ObjectRefused)
        self._cache.refuse_standby(key, job.driver_uid, job.generation, lasts=lasts)
        if lasts:
            with suppress(ObjectRefused):  # the next operator tries once more
                await self._runner.note_refusal(job)

    async def _publish(self, job: JobResource, status: Mapping[str, Any], events: tuple[JobEvent, ...]) -> None:
        """Publishes the events, then writes the status, so that no event is lost when the operator ends in between.

        An event that Kubernetes does not accept at once is dropped.
        """
        self._metrics.count_decisions(events)
        await self._recorder.record(job, events)
        await self._write(job.identity.key, job, status)

    async def _write(self, key: JobKey, job: JobResource, status: Mapping[str, Any]) -> None:
        patch = merge_patch(job.status, status)
        if not patch:
            return
        moment = asyncio.get_running_loop().time()
        if _is_progress(patch):
            left = self._written_at.get(key, -self._numbers_seconds) + self._numbers_seconds - moment
            if left > 0:
                self._queue.add_after(key, left)
                return
        self._written_at[key] = moment
        cached = self._cache.version(key)
        body = await self._runner.guard().patch_status(key, patch, resource_version=job.resource_version)
        if body is not None:
            self._cache.put_answer(body, instead_of=cached)

    def _forget(self, key: JobKey) -> None:
        self._looked_at.pop(key, None)
        self._written_at.pop(key, None)
        self._recorder.forget(key)
        self._failures.forget(key)
        self._restarting.ended(key)
        self._cache.forget(key)
        self._queue.forget(key)


def _is_progress(patch: Mapping[str, Any]) -> bool:
    """Whether a write of the status may wait."""
    scaling = patch.get(AUTOSCALER) or {}
    if any(scaling.get(name) for name in _AT_ONCE):
        return False
    return all(name in {*NUMBERS, AUTOSCALER} for name in patch)
