"""What the operator writes about the end of a resource: its finalizer, and the deletion of a Finished job."""

from __future__ import annotations

from dataclasses import replace

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.event_recorder import EventRecorder
from kafkasparkjob_operator.controller.job_objects.plan_runner import PlanRunner
from kafkasparkjob_operator.controller.refusals import refused_expiry, refused_hold
from kafkasparkjob_operator.decisions.plan import HoldResource, Plan, ReleaseResource
from kafkasparkjob_operator.kubernetes.port import ObjectConflict, ObjectRefused
from kafkasparkjob_operator.observation.observation import JobResource, Observation, job_resource
from kafkasparkjob_operator.status.events import JobEvent


class Hold:
    """Writes the finalizer, by which a deletion waits until the job's transactions are settled, and deletes.

    Called by the reconciler.
    """

    def __init__(self, runner: PlanRunner, recorder: EventRecorder, cache: Cache) -> None:
        self._runner = runner
        self._recorder = recorder
        self._cache = cache

    async def changed(self, observation: Observation, the_plan: Plan) -> Observation:
        """Adds or removes the finalizer where the plan says so, before an attempt can open a transaction.

        A job runs without it where the operator lacks the right; its deletion is not waited for then.

        :returns: the observation with the resource as it is afterwards.
        :raises ObjectConflict: the resource has changed since the look, or is gone.
        """
        change = next((found for found in the_plan.actions if isinstance(found, HoldResource | ReleaseResource)), None)
        if change is None:
            return observation
        job = observation.job
        cached = self._cache.version(job.identity.key)
        try:
            body = await self._runner.hold(job, held=isinstance(change, HoldResource))
        except ObjectRefused as error:
            await self._recorder.record(job, (refused_hold(error.message),))
            return observation
        if body is None:
            msg = f"{job.identity.key} has just been deleted"
            raise ObjectConflict(msg)
        self._cache.put_answer(body, instead_of=cached)
        return replace(observation, job=job_resource(body))

    async def release(self, job: JobResource, events: tuple[JobEvent, ...]) -> None:
        """Ends a deletion that the finalizer has held; events first, for they name what is left.

        :raises ObjectConflict: the resource has changed since the look.
        """
        await self._recorder.record(job, events)
        await self._runner.hold(job, held=False)

    async def expire(self, job: JobResource) -> None:
        """Deletes a Finished job whose time has passed, if nobody has changed it since the plan.

        :raises ObjectConflict: it has changed; look again.
        """
        try:
            await self._runner.delete_job(job)
        except ObjectRefused as error:
            await self._recorder.record(job, (refused_expiry(job, error.message),))
