"""Executes the actions of a plan; every write first checks that this process still leads."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from kafkasparkjob_operator.controller.job_objects.standing import StandingObjects
from kafkasparkjob_operator.controller.refusals import (
    CodeMissing,
    NameTaken,
    SecretExists,
    SnapshotNotReady,
)
from kafkasparkjob_operator.decisions.checks.code import message_of_missing
from kafkasparkjob_operator.decisions.plan import (
    Action,
    Activate,
    AskForScale,
    CreateState,
    DeleteAttemptRecord,
    DeletePod,
    NumberFailure,
    StartAttempt,
    WithdrawClaim,
)
from kafkasparkjob_operator.identity import (
    ANNOTATION_ASKED,
    ANNOTATION_CLAIM,
    ANNOTATION_FAILURE,
    ANNOTATION_REFUSED,
    FINALIZER,
    JobIdentity,
    owner_uid,
)
from kafkasparkjob_operator.kubernetes.port import (
    Body,
    Cluster,
    NotLeading,
    ObjectConflict,
    ObjectExists,
    ObjectRefused,
)
from kafkasparkjob_operator.observation.observation import JobResource, recorded_number
from kafkasparkjob_operator.resources.access import (
    SECRET_BYTES,
    spark_secret,
)
from kafkasparkjob_operator.resources.config_maps import (
    attempt_config_map,
    attempt_references,
    state_config_map,
)
from kafkasparkjob_operator.resources.driver_pod import driver_pod
from kafkasparkjob_operator.resources.revisions import (
    Modules,
    digest_of_content,
    modules_config_map,
    modules_name,
    modules_of,
    revision_config_map,
    revision_of,
)
from kafkasparkjob_operator.settings import NetworkRules
from kafkasparkjob_operator.status.snapshot_fields import SnapshotState
from sparkapp.model import commands, names
from sparkapp.model.checkpoint.retained_codec import decode_snapshot
from sparkapp.model.errors import CheckpointUnusable


class PlanRunner:
    """Carries out the actions of plans, for a job at a time.

    :param may_act: called before every write.
    :param network_rules: of the jobs' NetworkPolicies; empty for no policies.
    :param policy: the admission policy that confines the jobs' drivers; empty for those of all releases.
    :ivar standing: the objects that all attempts of a job share.
    """

    def __init__(self, cluster: Cluster, may_act: Callable[[], bool], network_rules: NetworkRules, policy: str) -> None:
        self._cluster = cluster
        self._may_act = may_act
        self.standing = StandingObjects(cluster, self.guard, network_rules, policy)

    def guard(self) -> Cluster:
        """The cluster, for a single write.

        :raises NotLeading: another process may act already.
        """
        if not self._may_act():
            msg = "another process leads"
            raise NotLeading(msg)
        return self._cluster

    async def run(self, action: Action, job: JobIdentity) -> Body | None:
        """Executes an action that comes before the status of its plan.

        :returns: the driver's pod, where the action creates it.
        :raises ObjectExists: another process was faster, for instance in the creation of the state.
        """
        if isinstance(action, CreateState):
            await self.guard().create(state_config_map(job))
        elif isinstance(action, WithdrawClaim):
            await self.delete_record(action, job)
        elif isinstance(action, Activate | AskForScale | NumberFailure):
            await self.annotate(action, job)
        elif isinstance(action, StartAttempt):
            return await self.start(action, job)
        return None

    async def start(self, action: StartAttempt, job: JobIdentity) -> Body:
        """Creates the attempt's objects: its ConfigMap claims the number, and its driver comes last.

        :returns: the driver's pod.
        :raises ObjectExists: the number is taken: another process acts, or acted since the look.
        :raises ObjectRefused: Kubernetes refuses an object; nothing of the attempt is left.
        :raises ObjectAwaitsCollection: an old object is still there; retry later.
        :raises SecretExists: the Secret of an earlier claim is still there, or somebody else's; retry later.
        :raises CodeMissing: the ConfigMap of the user's modules does not exist; retry later.
        :raises SnapshotNotReady: the snapshot that the attempt begins at has no checkpoint; retry later.
        :raises NameTaken: a foreign object has the name of ConfigMap or driver; another number is tried next.
        """
        modules, desired, revision = None, action.desired, ""
        if action.settles:  # it imports no module
            desired = desired.with_modules("")
        else:
            modules = await self._copy_modules(action, job)
            desired = desired.with_modules("" if modules is None else modules.name)
            made = revision_of(action.resource_spec, desired, modules="" if modules is None else modules.digest)
            revision = made.name(job)
            await self._ensure_copy(revision_config_map(job, made, modules), job)
        references = action.referenced.union([attempt_references(job, desired, attempt=action.attempt)])
        await self.standing.create(job, references)
        snapshots = {action.snapshot: await self._checkpoint_of(action.snapshot, job)} if action.snapshot else {}
        claim = attempt_config_map(
            job, action.desired, attempt=action.attempt, generation=action.generation,
            resource_spec=action.resource_spec, settles=action.settles, removes_state=action.removes_state,
            revision=revision, modules=modules, snapshots=snapshots, stateless=action.stateless,
        )  # fmt: skip
        try:
            record = await self.guard().create(claim)
        except ObjectExists:
            await self._tell_apart(claim, "labels", names.LABEL_JOB, names.LABEL_ROLE)
            raise
        for earlier in action.withdrawn:
            await self.delete_record(earlier, job)
        try:
            await self._create_secret(job, action.attempt, record)
            generation = action.generation if action.awaits_activation else None
            pod = driver_pod(
                job, desired, attempt=action.attempt, claim_uid=record["metadata"]["uid"], revision=revision,
                standby_for=generation, takes_over=action.takes_over,
            )  # fmt: skip
            return await self.guard().create(pod)
        except ObjectExists:
            await self._tell_apart(pod, "annotations", ANNOTATION_CLAIM)
            raise
        except (ObjectRefused, SecretExists):
            # The number was not used; the deletion of its ConfigMap frees it. Where it replaced other claims it is the
            # proof that theirs are taken.
            if not action.withdrawn:
                await self._cluster.delete(
                    "ConfigMap", job.namespace, record["metadata"]["name"], uid=record["metadata"]["uid"]
                )
            raise

    async def _copy_modules(self, action: StartAttempt, job: JobIdentity) -> Modules | None:
        """The copy of the user's modules that the attempt mounts; it is made where there is none. None without modules.

        :raises CodeMissing: there is nothing to copy.
        :raises ObjectConflict: the modules have changed since the look.
        """
        source = action.desired.spec.transform.code
        if not source:
            return None
        name = modules_name(job, action.code)
        copy = await self._cluster.get("ConfigMap", job.namespace, name) if action.code else None
        if copy is not None and owner_uid(copy) == job.uid and digest_of_content(copy) == action.code:
            return modules_of(copy, source=source)
        body = await self._cluster.get("ConfigMap", job.namespace, source)
        if body is None:
            raise CodeMissing(message_of_missing(source, job.namespace))
        if action.code and digest_of_content(body) != action.code:
            msg = f"ConfigMap {source} has just changed"
            raise ObjectConflict(msg)
        manifest = modules_config_map(job, body)
        await self._ensure_copy(manifest, job)
        return modules_of(manifest, source=source)

    async def _ensure_copy(self, manifest: Mapping[str, Any], job: JobIdentity) -> None:
        """Creates an immutable ConfigMap whose name has the hash of its content.

        :raises ObjectRefused: a foreign object has the name.
        """
        try:
            await self.guard().create(manifest)
        except ObjectExists:
            name = manifest["metadata"]["name"]
            existing = await self._cluster.get("ConfigMap", job.namespace, name)
            parts = ("immutable", "data", "binaryData")
            same = existing is not None and all(existing.get(part) == manifest.get(part) for part in parts)
            if existing is not None and not (same and owner_uid(existing) == job.uid):
                msg = (
                    f"ConfigMap {name} exists, and it is not the operator's; delete it:"
                    f" {commands.delete('ConfigMap', name, job.namespace)}"
                )
                raise ObjectRefused(msg) from None

    async def _checkpoint_of(self, name: str, job: JobIdentity) -> str:
        """The text of a snapshot's checkpoint, which its own ConfigMap holds.

        :raises SnapshotNotReady: there is none.
        """
        body = await self._cluster.get(names.SNAPSHOT_KIND, job.namespace, name)
        if body is None:
            msg = f"the namespace has no KafkaSparkSnapshot {name}: kubectl get kss -n {job.namespace} lists them"
            raise SnapshotNotReady(msg)
        status = body.get("status") or {}
        if status.get("state") != SnapshotState.READY:
            msg = f"snapshot {name} is not Ready: {status.get('message') or 'the operator has not filled it yet'}"
            raise SnapshotNotReady(msg)
        kept = status.get("configMap") or {}
        config_map = await self._cluster.get("ConfigMap", job.namespace, str(kept.get("name", "")))
        if config_map is None or config_map["metadata"]["uid"] != kept.get("uid"):
            msg = f"ConfigMap {kept.get('name')} of snapshot {name} was deleted: name another snapshot"
            raise SnapshotNotReady(msg)
        text = str((config_map.get("data") or {}).get(names.SNAPSHOT_KEY, ""))
        try:
            decode_snapshot(text, job_uid=str(status.get("jobUID", "")))
        except CheckpointUnusable as error:
            raise SnapshotNotReady(f"snapshot {name}: {error.message}") from error
        return text

    async def _create_secret(self, job: JobIdentity, attempt: int, record: Body) -> None:
        """:raises SecretExists: it was not made for this claim, so others may know its content."""
        value = secrets.token_urlsafe(SECRET_BYTES)
        manifest = spark_secret(job, attempt=attempt, claim_uid=record["metadata"]["uid"], value=value)
        try:
            await self.guard().create(manifest)
        except ObjectExists as error:
            name = manifest["metadata"]["name"]
            msg = (
                f"Secret {name} already exists: Kubernetes is about to delete it, or the operator did not create it;"
                f" if it stays, delete it: {commands.delete('Secret', name, job.namespace)}"
            )
            raise SecretExists(msg) from error

    async def _tell_apart(self, manifest: Mapping[str, Any], part: str, *marks: str) -> None:
        """
        :param marks: labels or annotations that an object of the operator has in common with the manifest.
        :raises NameTaken: the operator did not create the object that exists.
        """
        kind, meta = manifest["kind"], manifest["metadata"]
        existing = await self._cluster.get(kind, meta["namespace"], meta["name"])
        found = {} if existing is None else existing["metadata"].get(part) or {}
        if existing is not None and any(found.get(mark) != meta[part][mark] for mark in marks):
            raise NameTaken(kind, meta["name"], meta["namespace"])

    async def annotate(self, action: Activate | AskForScale | NumberFailure, job: JobIdentity) -> None:
        """:raises ObjectConflict: the pod is gone, or was recreated; look again.

        The pod of a failed executor that is gone needs no number: nobody counts it again.
        """
        if isinstance(action, Activate):
            annotations = {names.ANNOTATION_TURN: names.TURN_NEXT if action.is_next else names.TURN_GIVEN}
        elif isinstance(action, NumberFailure):
            annotations = {ANNOTATION_FAILURE: str(action.number)}
        else:
            annotations = {
                names.ANNOTATION_PARALLELISM: str(action.parallelism),
                names.ANNOTATION_EXECUTORS: str(action.executors),
                ANNOTATION_ASKED: action.at,
            }
        found = await self.guard().annotate_pod(job.key, action.name, annotations, uid=action.uid)
        if not found and not isinstance(action, NumberFailure):
            msg = f"pod {action.name} has just been deleted"
            raise ObjectConflict(msg)

    async def note_refusal(self, job: JobResource) -> None:
        """Writes on the running driver's pod that no standby driver could be created for the generation."""
        driver = names.driver_pod(job.identity.name, recorded_number(job))
        annotations = {ANNOTATION_REFUSED: str(job.generation)}
        await self.guard().annotate_pod(job.identity.key, driver, annotations, uid=job.driver_uid)

    async def hold(self, job: JobResource, *, held: bool) -> Body | None:
        """Adds the operator's finalizer, or takes it off; the resource as it is then, None where it is gone.

        :raises ObjectConflict: the resource has changed since it was read.
        """
        others = [finalizer for finalizer in job.finalizers if finalizer != FINALIZER]
        desired = [*others, FINALIZER] if held else others
        return await self.guard().set_finalizers(job.identity.key, desired, resource_version=job.resource_version)

    async def delete_job(self, job: JobResource) -> None:
        """:raises ObjectConflict: the resource has changed since it was read."""
        await self.guard().delete_job_version(
            job.identity.key, uid=job.identity.uid, resource_version=job.resource_version
        )

    async def delete_pod(self, action: DeletePod, job: JobIdentity) -> None:
        await self.guard().delete("Pod", job.namespace, action.name, uid=action.uid, grace_seconds=action.grace_seconds)

    async def delete_record(self, action: DeleteAttemptRecord | WithdrawClaim, job: JobIdentity) -> None:
        await self.guard().delete("ConfigMap", job.namespace, action.name, uid=action.uid)
