"""An API server in memory, with just enough of a kubelet and a garbage collector, for the operator's unit tests."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from kafkasparkjob_operator.identity import ROLE_SNAPSHOT, ROLES_OF_ATTEMPTS, JobKey
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectConflict, ObjectExists, ObjectRefused
from sparkapp.model import names

Body = dict[str, Any]
TIME = "2026-11-21T12:00:00Z"
GONE_BY = "2026-11-21T12:02:00Z"
GRACE_SECONDS = 120
"""A pod's time of deletion has its grace in it."""


class FakeKubernetes:
    """Implements the operator's port. Writes are counted and can be made to fail.

    :ivar writes: every write that succeeded, as ``(verb, kind, name)``.
    :ivar fail_write: number of the next write that gets no answer although it was carried out; None for no failure.
    :ivar refuse_pods: message with which the creation of pods is refused; empty allows it.
    :ivar refuse_snapshots: the same of snapshots.
    :ivar snapshot_quota: number of snapshots that a ResourceQuota allows; None for no quota. As in a cluster, a
        deletion makes room only later, here by :meth:`kubelet`.
    :ivar refuse_finalizers: the same of changes of a job's finalizers.
    :ivar refuse_annotations: the same of changes of a pod's annotations.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Body] = {}
        self.writes: list[tuple[str, str, str]] = []
        self.fail_write: int | None = None
        self.refuse_pods = ""
        self.refuse_snapshots = ""
        self.snapshot_quota: int | None = None
        self._uncredited_snapshots = 0
        self.refuse_finalizers = ""
        self.refuse_annotations = ""
        self.refuse_deletion = ""
        self.driver_attempts: list[int] = []
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    # -- what the operator calls -----------------------------------------------------------------------------------

    async def list_namespaces(self, selector: str) -> Sequence[str]:
        key, _, value = selector.partition("=")
        found = self._all("Namespace")
        return [body["metadata"]["name"] for body in found if body["metadata"]["labels"].get(key) == value]

    async def get_job(self, key: JobKey) -> Body | None:
        return await self.get(names.KIND, key.namespace, key.name)

    async def list_jobs(self, namespace: str | None) -> AsyncIterator[Sequence[Body]]:
        """A page for each job."""
        for each in self._all(names.KIND):
            if namespace in {None, each["metadata"]["namespace"]}:
                yield [each]

    async def list_pods(self, key: JobKey) -> Sequence[Body]:
        return list(self._of_job("Pod", key))

    async def list_attempts(self, key: JobKey) -> Sequence[Body]:
        return self._config_maps(key, ROLES_OF_ATTEMPTS)

    async def list_snapshots(self, key: JobKey) -> Sequence[Body]:
        return self._config_maps(key, (ROLE_SNAPSHOT,))

    def _config_maps(self, key: JobKey, roles: Sequence[str]) -> Sequence[Body]:
        return [
            {"kind": "PartialObjectMetadata", "metadata": each["metadata"]}
            for each in self._of_job("ConfigMap", key)
            if each["metadata"]["labels"].get(names.LABEL_ROLE) in roles
        ]

    async def list_objects(self, kind: str, namespace: str | None) -> AsyncIterator[Sequence[Body]]:
        """A page for each object."""
        for each in list(self._all(kind)):
            meta = each["metadata"]
            if names.LABEL_JOB in meta.get("labels", {}) and namespace in {None, meta["namespace"]}:
                yield [{"kind": "PartialObjectMetadata", "metadata": meta}]

    async def list_quotas(self, namespace: str) -> Sequence[Body]:
        return [each for each in self._all("ResourceQuota") if each["metadata"]["namespace"] == namespace]

    async def list_versions(self, namespace: str) -> Mapping[str, str]:
        await asyncio.sleep(0)
        return {
            name: each["metadata"]["resourceVersion"]
            for (kind, where, name), each in self.objects.items()
            if (kind, where) == ("ConfigMap", namespace) and names.LABEL_JOB not in each["metadata"].get("labels", {})
        }

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        await asyncio.sleep(0)
        _refuse_secret(kind)
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    async def create(self, manifest: Mapping[str, Any]) -> Body:
        await asyncio.sleep(0)
        body = copy.deepcopy(dict(manifest))
        meta = body["metadata"]
        place = (body["kind"], meta["namespace"], meta["name"])
        if place in self.objects:
            msg = f"{place} exists"
            raise ObjectExists(msg, status=409)
        if body["kind"] == names.SNAPSHOT_KIND and self.refuse_snapshots:
            raise ObjectRefused(self.refuse_snapshots, status=403)
        if body["kind"] == names.SNAPSHOT_KIND:
            self._charge(meta["name"])
        if body["kind"] == "Pod" and self.refuse_pods:
            raise ObjectRefused(self.refuse_pods, status=403)
        meta |= {
            "uid": f"uid-{next(self._uids)}",
            "resourceVersion": str(next(self._versions)),
            "creationTimestamp": TIME,
        }
        if body["kind"] == "Pod":
            body.setdefault("status", {"phase": "Pending"})
            if meta["labels"].get(names.LABEL_ROLE) == names.ROLE_DRIVER:
                self.driver_attempts.append(int(meta["labels"][names.LABEL_ATTEMPT]))
        self.objects[place] = body
        self._written("create", place)
        return copy.deepcopy(body)

    async def apply(self, manifest: Mapping[str, Any]) -> Body:
        await asyncio.sleep(0)
        meta = manifest["metadata"]
        place = (manifest["kind"], meta["namespace"], meta["name"])
        self.objects[place] = merged(self.objects[place], manifest)
        self.objects[place]["metadata"]["resourceVersion"] = str(next(self._versions))
        self._written("apply", place)
        return copy.deepcopy(self.objects[place])

    async def replace(self, manifest: Mapping[str, Any]) -> Body:
        await asyncio.sleep(0)
        meta = manifest["metadata"]
        place = (manifest["kind"], meta["namespace"], meta["name"])
        current = self.objects.get(place)
        if current is None or current["metadata"]["resourceVersion"] != meta.get("resourceVersion"):
            raise ObjectConflict("changed", status=409)
        self.objects[place] = copy.deepcopy(dict(manifest))
        self.objects[place]["metadata"]["resourceVersion"] = str(next(self._versions))
        self._written("replace", place)
        return copy.deepcopy(self.objects[place])

    async def delete(
        self, kind: str, namespace: str, name: str, *, uid: str | None = None, grace_seconds: int | None = None
    ) -> None:
        await asyncio.sleep(0)
        _refuse_secret(kind)
        place = (kind, namespace, name)
        current = self.objects.get(place)
        if current is None or (uid is not None and current["metadata"]["uid"] != uid):
            return
        meta = current["metadata"]
        shortened = grace_seconds is not None and grace_seconds < meta.get("deletionGracePeriodSeconds", 0)
        if kind == "Pod" and (
            current["status"]["phase"] == "Running" or ("deletionTimestamp" in meta and not shortened)
        ):
            if meta.setdefault("deletionTimestamp", GONE_BY) == GONE_BY:
                meta.setdefault("deletionGracePeriodSeconds", GRACE_SECONDS if grace_seconds is None else grace_seconds)
                meta["resourceVersion"] = str(next(self._versions))
        else:
            self.remove(place)
        self._written("delete", place)

    async def patch_status(
        self, key: JobKey, patch: Mapping[str, Any], *, resource_version: str, kind: str = names.KIND
    ) -> Body | None:
        await asyncio.sleep(0)
        place = (kind, key.namespace, key.name)
        current = self.objects.get(place)
        if current is None:
            return None
        if current["metadata"]["resourceVersion"] != resource_version:
            raise ObjectConflict("changed", status=409)
        current["status"] = merged(current.get("status") or {}, patch)
        current["metadata"]["resourceVersion"] = str(next(self._versions))
        self._written("patch", place)
        return copy.deepcopy(current)

    async def set_finalizers(self, key: JobKey, finalizers: Sequence[str], *, resource_version: str) -> Body | None:
        await asyncio.sleep(0)
        place = (names.KIND, key.namespace, key.name)
        current = self.objects.get(place)
        if current is None:
            return None
        if self.refuse_finalizers:
            raise ObjectRefused(self.refuse_finalizers, status=403)
        if current["metadata"]["resourceVersion"] != resource_version:
            raise ObjectConflict("changed", status=409)
        current["metadata"]["finalizers"] = [*finalizers]
        current["metadata"]["resourceVersion"] = str(next(self._versions))
        self._collect(key)  # also where the answer is lost
        self._written("patch", place)
        return copy.deepcopy(current)

    async def delete_job_version(self, key: JobKey, *, uid: str, resource_version: str) -> None:
        await asyncio.sleep(0)
        current = self.objects.get((names.KIND, key.namespace, key.name))
        if current is None:
            return
        if self.refuse_deletion:
            raise ObjectRefused(self.refuse_deletion, status=403)
        if (current["metadata"]["uid"], current["metadata"]["resourceVersion"]) != (uid, resource_version):
            raise ObjectConflict("changed", status=409)
        self.delete_job(key)
        self._written("delete", (names.KIND, key.namespace, key.name))

    async def annotate_pod(self, key: JobKey, pod: str, annotations: Mapping[str, str], *, uid: str) -> bool:
        await asyncio.sleep(0)
        return self._annotate(("Pod", key.namespace, pod), annotations, uid) is not None

    async def annotate_config_map(
        self, namespace: str, name: str, annotations: Mapping[str, str | None], *, uid: str
    ) -> Body | None:
        await asyncio.sleep(0)
        return self._annotate(("ConfigMap", namespace, name), annotations, uid)

    def _annotate(self, place: tuple[str, str, str], annotations: Mapping[str, str | None], uid: str) -> Body | None:
        current = self.objects.get(place)
        if current is None:
            return None
        if self.refuse_annotations:  # the API server compares the UID after the webhooks
            raise ObjectRefused(self.refuse_annotations, status=403)
        if current["metadata"]["uid"] != uid:
            raise ObjectConflict("another object", status=409)
        kept = {**(current["metadata"].get("annotations") or {}), **annotations}
        current["metadata"]["annotations"] = {name: text for name, text in kept.items() if text is not None}
        current["metadata"]["resourceVersion"] = str(next(self._versions))
        self._written("annotate", place)
        return copy.deepcopy(current)

    # -- what tests do ---------------------------------------------------------------------------------------------

    def add_job(self, body: Body) -> None:
        meta = body["metadata"]
        meta |= {"uid": meta.get("uid") or f"uid-{next(self._uids)}", "generation": 1, "creationTimestamp": TIME}
        meta["resourceVersion"] = str(next(self._versions))
        self.objects[names.KIND, meta["namespace"], meta["name"]] = body

    def edit_job(self, key: JobKey, **spec: Any) -> None:
        body = self.job(key)
        body["spec"] = merged(body["spec"], spec)
        body["metadata"]["generation"] += 1
        body["metadata"]["resourceVersion"] = str(next(self._versions))

    def annotate_job(self, key: JobKey, **annotations: str | None) -> None:
        """A person annotates it; None takes an annotation away."""
        meta = self.job(key)["metadata"]
        meta["annotations"] = merged(meta.get("annotations") or {}, annotations)
        meta["resourceVersion"] = str(next(self._versions))

    def delete_job(self, key: JobKey, *, foreground: bool = False) -> None:
        """A person deletes it: at once, or when its finalizers are gone. The deletion is another generation."""
        meta = self.job(key)["metadata"]
        if not meta.get("deletionTimestamp"):
            meta["generation"] += 1
        meta["deletionTimestamp"] = TIME
        meta["resourceVersion"] = str(next(self._versions))
        if foreground:
            meta["finalizers"] = [*meta.get("finalizers", ()), "foregroundDeletion"]
        self._collect(key)

    def has_job(self, key: JobKey) -> bool:
        return (names.KIND, key.namespace, key.name) in self.objects

    def _collect(self, key: JobKey) -> None:
        """A job that is being deleted goes with its last finalizer, and what it owns goes with it."""
        meta = self.job(key)["metadata"]
        if not meta.get("deletionTimestamp") or meta.get("finalizers"):
            return
        for place, body in list(self.objects.items()):
            owners = body["metadata"].get("ownerReferences") or ()
            if (place[0] == names.KIND and place[2] == key.name) or any(each["uid"] == meta["uid"] for each in owners):
                self.remove(place)

    def job(self, key: JobKey) -> Body:
        return self.objects[names.KIND, key.namespace, key.name]

    def status(self, key: JobKey) -> Body:
        return dict(self.job(key).get("status") or {})

    def condition(self, key: JobKey, kind: str) -> Body:
        return next((each for each in self.status(key).get("conditions", ()) if each["type"] == kind), {})

    def events(self, *, warning: bool | None = None) -> list[str]:
        return [
            each["reason"] for each in self._all("Event") if warning is None or (each["type"] == "Warning") is warning
        ]

    def messages(self, reason: str) -> list[str]:
        """The messages of the events with that reason."""
        return [str(each["message"]) for each in self._all("Event") if each["reason"] == reason]

    def pods(self, key: JobKey, role: str | None = None) -> list[Body]:
        return [
            each
            for each in self._of_job("Pod", key)
            if role is None or each["metadata"]["labels"][names.LABEL_ROLE] == role
        ]

    def pod_runs(self, name: str, namespace: str = "team", *, since: str = "") -> None:
        pod, running = self.objects["Pod", namespace, name], {"startedAt": since} if since else {}
        pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "driver", "state": {"running": running}}]}

    def pod_ends(
        self, name: str, *, message: str = "", code: int = 0, reason: str = "", namespace: str = "team"
    ) -> None:
        """The containers end; a pod that is being deleted goes, as the kubelet lets it go."""
        place = ("Pod", namespace, name)
        pod = self.objects[place]
        terminated = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "message": message}
        phase = "Succeeded" if code == 0 else "Failed"
        pod["status"] = {"phase": phase, "containerStatuses": [{"name": "driver", "state": {"terminated": terminated}}]}

    def _charge(self, snapshot: str) -> None:
        used = sum(place[0] == names.SNAPSHOT_KIND for place in self.objects) + self._uncredited_snapshots
        if self.snapshot_quota is not None and used >= self.snapshot_quota:
            resource = f"count/{names.SNAPSHOT_PLURAL}.{names.GROUP}"
            numbers = f"requested: {resource}=1, used: {resource}={used}, limited: {resource}={self.snapshot_quota}"
            msg = f'{names.SNAPSHOT_PLURAL}.{names.GROUP} "{snapshot}" is forbidden: exceeded quota: few, {numbers}'
            raise ObjectRefused(msg, status=403)

    def kubelet(self) -> None:
        """Pods that are being deleted and have ended are gone; executors go with their driver."""
        self._uncredited_snapshots = 0
        for place, pod in list(self.objects.items()):
            if place[0] == "Pod" and pod["metadata"].get("deletionTimestamp") and pod["status"]["phase"] != "Running":
                self.remove(place)

    def add_executor(self, key: JobKey, attempt: int, number: int = 1, phase: str = "Running") -> str:
        name = f"{names.executor_pod_prefix(key.name, attempt)}-exec-{number}"
        labels = names.labels(key.name, attempt=attempt, role=names.ROLE_EXECUTOR)
        driver = names.driver_pod(key.name, attempt)
        made = self.objects.get(("Pod", key.namespace, driver))
        owner = {"kind": "Pod", "name": driver, "uid": made["metadata"]["uid"] if made else f"uid-{next(self._uids)}"}
        self.objects["Pod", key.namespace, name] = {
            "kind": "Pod",
            "metadata": {
                "name": name, "namespace": key.namespace, "labels": labels, "uid": f"uid-{next(self._uids)}",
                "resourceVersion": str(next(self._versions)), "ownerReferences": [owner],
            },
            "status": {"phase": phase},
        }  # fmt: skip
        return name

    def forge(self, key: JobKey, name: str, role: str, attempt: int, annotations: Mapping[str, str]) -> None:
        """A pod that somebody else makes, with the job's labels, and its owner where it plays a driver."""
        owner = {"kind": names.KIND, "name": key.name, "uid": self.job(key)["metadata"]["uid"]}
        labels = names.labels(key.name, role=role) | {names.LABEL_ATTEMPT: str(attempt)}
        self.objects["Pod", key.namespace, name] = {
            "kind": "Pod",
            "metadata": {
                "name": name, "namespace": key.namespace, "labels": labels, "uid": f"uid-{next(self._uids)}",
                "resourceVersion": str(next(self._versions)), "annotations": dict(annotations),
                "creationTimestamp": TIME, "ownerReferences": [owner] if role == names.ROLE_DRIVER else [],
            },
            "status": {"phase": "Running"},
        }  # fmt: skip

    def set_data(self, key: JobKey, config_map: str, name: str, text: str) -> None:
        self.objects["ConfigMap", key.namespace, config_map].setdefault("data", {})[name] = text

    def remove(self, place: tuple[str, str, str]) -> None:
        """The object goes, and the Secret that it owns."""
        gone = self.objects.pop(place, None)
        self._uncredited_snapshots += gone is not None and place[0] == names.SNAPSHOT_KIND
        for other, body in list(self.objects.items()):
            owners = body["metadata"].get("ownerReferences") or ()
            if gone and other[0] == "Secret" and any(each["uid"] == gone["metadata"].get("uid") for each in owners):
                self.objects.pop(other)

    def _written(self, verb: str, place: tuple[str, str, str]) -> None:
        self.writes.append((verb, place[0], place[2]))
        if self.fail_write is not None:
            if self.fail_write <= 0:
                self.fail_write = None
                msg = "no answer"
                raise ClusterError(msg)
            self.fail_write -= 1

    def _all(self, kind: str) -> Iterator[Body]:
        return (copy.deepcopy(body) for place, body in self.objects.items() if place[0] == kind)

    def _of_job(self, kind: str, key: JobKey) -> Iterator[Body]:
        return (
            body
            for body in self._all(kind)
            if body["metadata"]["namespace"] == key.namespace
            and (body["metadata"].get("labels") or {}).get(names.LABEL_JOB) == key.name
        )


def _refuse_secret(kind: str) -> None:
    """The operator creates Secrets, and has no other right."""
    if kind == "Secret":
        msg = "secrets is forbidden"
        raise ObjectRefused(msg, status=403)


def merged(body: Mapping[str, Any], patch: Mapping[str, Any]) -> Body:
    """Applies a JSON merge patch as the API server does."""
    result = dict(body)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            previous = result.get(name)
            result[name] = merged(previous if isinstance(previous, Mapping) else {}, value)
        else:
            result[name] = copy.deepcopy(value)
    return result
