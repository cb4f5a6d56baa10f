"""The objects that all attempts of a job share: created at a start, and repaired while an attempt runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkasparkjob_operator.controller.job_objects.pins import needed_pins
from kafkasparkjob_operator.controller.refusals import ObjectAwaitsCollection
from kafkasparkjob_operator.identity import JobIdentity, owned_by_deleted_job, owner_uid
from kafkasparkjob_operator.kubernetes.port import Body, Cluster, ObjectConflict, ObjectExists, ObjectRefused
from kafkasparkjob_operator.resources.access import executor_service_account, role, role_binding, service_account
from kafkasparkjob_operator.resources.config_maps import checkpoints_config_map, report_config_map
from kafkasparkjob_operator.resources.network_policies import network_policies, network_policy_names
from kafkasparkjob_operator.resources.references import References
from kafkasparkjob_operator.settings import NetworkRules
from sparkapp.model import commands, names

Manifests = tuple[Mapping[str, Any], ...]

_MANAGED_BY = "app.kubernetes.io/managed-by"
_REPAIRED = ("rules", "subjects", "roleRef", "automountServiceAccountToken", "spec")
"""Parts of Roles, bindings, service accounts and NetworkPolicies that the operator restores."""


class StandingObjects:
    """Service accounts, Role and binding, ConfigMaps and NetworkPolicies of a job. Called by the plan runner.

    :param guard: the cluster, for a single write; it raises :class:`NotLeading` where another process may act.
    :param network_rules: of the jobs' NetworkPolicies; empty for no policies.
    :param policy: the admission policy that confines the jobs' drivers; empty for those of all releases.
    """

    def __init__(
        self, cluster: Cluster, guard: Callable[[], Cluster], network_rules: NetworkRules, policy: str
    ) -> None:
        self._cluster, self._guard = cluster, guard
        self._network_rules, self._policy = network_rules, policy

    async def create(self, job: JobIdentity, references: References) -> None:
        """Creates what is missing, and repairs the rest. Called at each start of an attempt.

        :param references: what executors of the job's attempts refer to.
        :raises ObjectRefused: Kubernetes refuses an object, or a foreign object has its name.
        :raises ObjectAwaitsCollection: an old object is still there; retry later.
        """
        accounts = ((service_account(job),), (executor_service_account(job),))
        await self._ensure_each((*accounts, *self._of_every_attempt(job, references)), job)

    async def repair(self, job: JobIdentity, references: References) -> None:
        """Restores what a driver needs while it runs: Role and binding, its ConfigMaps, and the NetworkPolicies.

        Without rules of the network it deletes the policies of an earlier setting.

        Called at each live look at a job that has attempts.

        :param references: what executors of the job's attempts refer to; empty before this release's first attempt.
        """
        if not references.images:
            return
        await self._ensure_each(self._of_every_attempt(job, references), job, expected=True)
        if not self._network_rules:
            for name in network_policy_names(job):
                await self._delete_own("NetworkPolicy", name, job)

    def _of_every_attempt(self, job: JobIdentity, references: References) -> Iterable[Manifests]:
        # The API server refuses a binding before its Role exists.
        yield role(job, references, policy=self._policy), role_binding(job)
        for manifest in (report_config_map(job), *network_policies(job, self._network_rules)):
            yield (manifest,)

    async def _delete_own(self, kind: str, name: str, job: JobIdentity) -> None:
        """Deletes an object of this job. Others of that name stay."""
        existing = await self._cluster.get(kind, job.namespace, name)
        if existing is not None and owner_uid(existing) == job.uid:
            await self._guard().delete(kind, job.namespace, name, uid=existing["metadata"]["uid"])

    async def _ensure_each(self, groups: Iterable[Manifests], job: JobIdentity, *, expected: bool = False) -> None:
        """Ensures the groups and the checkpoints at the same time. All of them end, even if one fails."""
        ensured = [self._ensure_all(manifests, job, expected=expected) for manifests in groups]
        for outcome in await asyncio.gather(*ensured, self._ensure_checkpoints(job), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ensure_checkpoints(self, job: JobIdentity) -> None:
        """Creates the ConfigMap of retained checkpoints with its pins, or repairs it.

        While it is gone the driver removes no state. Without pins the driver would remove the state of all snapshots.
        So the pins are in the same write, and where they are not known there is no write (ADR 115).
        """
        existing = await self._cluster.get("ConfigMap", job.namespace, names.checkpoints_config_map(job.name))
        if existing is None:
            pins = await needed_pins(self._cluster, job, {})
            existing = await self._create(checkpoints_config_map(job, pins))
        if existing is not None:
            await self._repair(existing, checkpoints_config_map(job), job)

    async def _ensure_all(self, manifests: Manifests, job: JobIdentity, *, expected: bool) -> None:
        """Ensures the objects in their order.

        :param expected: they should exist, so each is read first.
        """
        for manifest in manifests:
            await self._ensure(manifest, job, expected=expected)

    async def _ensure(self, manifest: Mapping[str, Any], job: JobIdentity, *, expected: bool) -> None:
        """Creates the object, or repairs the existing object."""
        meta = manifest["metadata"]
        existing = await self._cluster.get(manifest["kind"], job.namespace, meta["name"]) if expected else None
        if existing is None:
            existing = await self._create(manifest)
        if existing is not None:
            await self._repair(existing, manifest, job)

    async def _create(self, manifest: Mapping[str, Any]) -> Body | None:
        """Creates the object.

        :returns: the object of that name that exists already; None where there was none.
        """
        try:
            await self._guard().create(manifest)
        except ObjectExists:
            kind, meta = manifest["kind"], manifest["metadata"]
            existing = await self._cluster.get(kind, meta["namespace"], meta["name"])
            if existing is None:
                msg = f"{kind} {meta['name']} has just been deleted"
                raise ObjectConflict(msg) from None
            return existing
        return None

    async def _repair(self, existing: Body, manifest: Mapping[str, Any], job: JobIdentity) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        command = commands.delete(kind, name, job.namespace)
        if owned_by_deleted_job(existing, job):
            msg = f"{kind} {name} of a deleted job of the same name still exists; if it stays, delete it: {command}"
            raise ObjectAwaitsCollection(msg)
        if (existing["metadata"].get("labels") or {}).get(_MANAGED_BY) != names.MANAGED_BY:
            msg = (
                f"{kind} {name} exists, but the operator did not create it: give the job another name, or delete it:"
                f" {command}"
            )
            raise ObjectRefused(msg)
        if owner_uid(existing) == job.uid and all(existing.get(part) == manifest.get(part) for part in _REPAIRED):
            return
        if existing.get("roleRef") != manifest.get("roleRef"):  # the only part that cannot change
            await self._guard().delete(kind, job.namespace, name, uid=existing["metadata"]["uid"])
            await self._guard().create(manifest)
            return
        await self._guard().apply(manifest)
