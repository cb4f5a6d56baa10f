"""Carries out the actions of a plan; every request is preceded by the question whether this process may still act."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkasparkjob_operator.cluster import (
    Body,
    Cluster,
    ClusterError,
    NotLeading,
    ObjectConflict,
    ObjectExists,
    ObjectRefused,
)
from kafkasparkjob_operator.identity import ANNOTATION_CLAIM, JobIdentity, owned_by_former_job, owner_uid
from kafkasparkjob_operator.plan import (
    CreateState,
    DeleteAttemptRecord,
    DeletePod,
    GiveTurn,
    StartAttempt,
    WithdrawClaim,
)
from kafkasparkjob_operator.resources.access import role, role_binding, service_account
from kafkasparkjob_operator.resources.config_maps import (
    attempt_config_map,
    checkpoints_config_map,
    report_config_map,
    state_config_map,
)
from kafkasparkjob_operator.resources.driver_pod import driver_pod
from sparkapp.model import names

_MANAGED_BY = "app.kubernetes.io/managed-by"


class FormerObjectInTheWay(ClusterError):
    """An object of a deleted job of the same name is still there; Kubernetes is about to collect it."""

    reason = "AwaitingCollection"


class PodNameTaken(ClusterError):
    """Somebody else's pod has the name of the next attempt's driver."""

    reason = "PodNameTaken"


class Executor:
    """Carries out actions for one job at a time.

    :param may_act: asked before every write.
    """

    def __init__(self, cluster: Cluster, may_act: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._may_act = may_act

    def guard(self) -> Cluster:
        """The cluster, for one write.

        :raises NotLeading: another process may be acting by now.
        """
        if not self._may_act():
            msg = "another process leads"
            raise NotLeading(msg)
        return self._cluster

    async def create_state(self, _: CreateState, job: JobIdentity) -> None:
        """:raises ObjectExists: somebody was faster; the plan was made from an old look."""
        await self.guard().create(state_config_map(job))

    async def start(self, action: StartAttempt, job: JobIdentity) -> Body:
        """Creates what the attempt needs, its ConfigMap as the claim of the number, and its driver last.

        :returns: the driver's pod.
        :raises ObjectExists: the number is taken: another process acts, or acted since the look.
        :raises ObjectRefused: Kubernetes does not allow one of the objects; nothing of the attempt is left.
        :raises FormerObjectInTheWay: wait and try again.
        :raises PodNameTaken: the driver's name is taken: the next number is tried when this one's claim is old.
        """
        # A binding is refused while its Role is not there: the operator may grant only what it can look up.
        needed = (
            (service_account(job),), (role(job), role_binding(job)), (checkpoints_config_map(job),),
            (report_config_map(job),),
        )  # fmt: skip
        # All of them come to an end before anything else is done about the job, whatever one of them meets.
        for outcome in await asyncio.gather(*(self._ensure_all(one, job) for one in needed), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        record = await self.guard().create(
            attempt_config_map(
                job, action.wanted, attempt=action.attempt, generation=action.generation,
                resource_spec=action.resource_spec,
            )
        )  # fmt: skip
        try:
            generation = action.generation if action.awaits_turn else None
            return await self.guard().create(
                driver_pod(
                    job, action.wanted, attempt=action.attempt, claim_uid=record["metadata"]["uid"],
                    awaits_turn_for=generation,
                )
            )  # fmt: skip
        except ObjectExists:
            await self._tell_apart(names.driver_pod(job.name, action.attempt), record, job)
            raise
        except ObjectRefused:
            # The number was not used; with its ConfigMap gone, it can be.
            await self._cluster.delete(
                "ConfigMap", job.namespace, record["metadata"]["name"], uid=record["metadata"]["uid"]
            )
            raise

    async def _tell_apart(self, pod: str, record: Body, job: JobIdentity) -> None:
        """:raises PodNameTaken: the pod is not the one that the operator makes for that ConfigMap."""
        existing = await self._cluster.get("Pod", job.namespace, pod)
        annotations = {} if existing is None else existing["metadata"].get("annotations") or {}
        if existing is not None and annotations.get(ANNOTATION_CLAIM) != record["metadata"]["uid"]:
            msg = (
                f"pod {pod} is there, and the operator did not make it: the attempt is passed over;"
                f" kubectl delete pod {pod} --namespace {job.namespace}"
            )
            raise PodNameTaken(msg)

    async def give_turn(self, action: GiveTurn, job: JobIdentity) -> None:
        """:raises ObjectConflict: the pod is gone, or is another one: look again."""
        annotations = {names.ANNOTATION_TURN: names.TURN_GIVEN}
        if not await self.guard().annotate_pod(job.key, action.name, annotations, uid=action.uid):
            msg = f"pod {action.name} has just been deleted"
            raise ObjectConflict(msg)

    async def delete_pod(self, action: DeletePod, job: JobIdentity) -> None:
        await self.guard().delete("Pod", job.namespace, action.name, uid=action.uid, grace_seconds=action.grace_seconds)

    async def delete_record(self, action: DeleteAttemptRecord | WithdrawClaim, job: JobIdentity) -> None:
        await self.guard().delete("ConfigMap", job.namespace, names.attempt_config_map(job.name, action.attempt))

    async def _ensure_all(self, manifests: Iterable[Mapping[str, Any]], job: JobIdentity) -> None:
        """One after the other."""
        for manifest in manifests:
            await self._ensure(manifest, job)

    async def _ensure(self, manifest: Mapping[str, Any], job: JobIdentity) -> None:
        """Creates the object, or brings the existing one to what it should be."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            await self.guard().create(manifest)
            return
        except ObjectExists:
            existing = await self._cluster.get(kind, job.namespace, name)
        if existing is None:
            msg = f"{kind} {name} has just been deleted"
            raise ObjectConflict(msg)
        if owned_by_former_job(existing, job):
            msg = f"{kind} {name} of a deleted job of the same name is still there"
            raise FormerObjectInTheWay(msg)
        if (existing["metadata"].get("labels") or {}).get(_MANAGED_BY) != names.MANAGED_BY:
            msg = f"{kind} {name} exists and is not the operator's: delete it, or give the job another name"
            raise ObjectRefused(msg)
        if owner_uid(existing) == job.uid and existing.get("rules") == manifest.get("rules"):
            return
        repaired = {**existing, "kind": kind, "apiVersion": manifest["apiVersion"]}
        repaired["metadata"] = {
            **existing["metadata"],
            "ownerReferences": manifest["metadata"]["ownerReferences"],
            "labels": {**existing["metadata"]["labels"], **manifest["metadata"]["labels"]},
        }
        if "rules" in manifest:
            repaired["rules"] = manifest["rules"]
        await self.guard().replace(repaired)
