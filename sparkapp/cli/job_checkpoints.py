"""Finds a job's checkpoints: in Kubernetes by the job's name, or on this machine by its state file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sparkapp.checkpoint.recovery.restore import retained_checkpoints
from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.cli.target import stored_text
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.errors import (
    CheckpointCorrupt,
    CheckpointError,
    CheckpointMissing,
    CheckpointUnusable,
    InputUnreadable,
)
from sparkapp.model.job.sections.retention import Restore


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job's present checkpoints.

    :param uid: of the resource; a recreated resource has other checkpoints.
    :param text: the current document's text; None before the first attempt claimed the state.
    :param lost: why the text cannot be read at all.
    :param texts: of the retained checkpoints, by key.
    :param spec: the resource's, empty for a state file.
    :param version: the resource's, to change it.
    :param kubectl_name: name and namespace of the resource as kubectl takes them.
    """

    uid: str
    text: str | None
    texts: dict[str, str]
    spec: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    kubectl_name: str = ""
    lost: CheckpointError | None = None

    def current(self) -> CheckpointDocument:
        """The current document.

        :raises CheckpointError: there is none yet, or it is not valid.
        """
        if self.lost is not None:
            raise self.lost
        if self.text is None:
            msg = "the job has no checkpoint yet"
            raise CheckpointMissing(
                msg, remedy=f"start the job; see its conditions: kubectl describe ksj {self.kubectl_name}"
            )
        return decode(self.text, job_uid=self.uid)

    def earlier(self) -> list[RetainedCheckpoint | CheckpointUnusable]:
        """The retained checkpoints, newest first; an error in place of an unusable checkpoint."""
        return retained_checkpoints(self.texts, job_uid=self.uid)


class JobCheckpoints(Protocol):
    """Where the checkpoints of a job are, for the ``checkpoint`` commands."""

    def find(self) -> FoundJob:
        """Reads everything.

        :raises CheckpointError: there is no such job, or no answer.
        """
        ...

    def snapshot(self, name: str) -> RetainedCheckpoint:
        """The checkpoint of a KafkaSparkSnapshot.

        :raises KafkaSparkJobError: there is none that can be used.
        """
        ...

    def request_restore(self, found: FoundJob, restore: Restore) -> str:
        """Requests a restore.

        :param restore: its target, and the new nonce.
        :returns: the change, for the user.
        :raises CheckpointError: the job has changed since :meth:`find`, or there is no answer.
        """
        ...


class ClusterCheckpoints:
    """The resource and its ConfigMaps, with the identity of the kubeconfig or of the pod."""

    def __init__(self, *, namespace: str, job: str, context: str = "") -> None:
        from sparkapp.checkpoint.kubernetes.config_map import core_api
        from sparkapp.checkpoint.kubernetes.job_resource import JobResources

        self._api = core_api(context)
        self._namespace, self._name = namespace, job
        self._job = f"{namespace}/{job}"
        self._kubectl_name = f"{job} -n {namespace}"
        self._resources = JobResources(namespace=namespace, job=job)

    def find(self) -> FoundJob:
        """Reads the resource and both ConfigMaps, see :meth:`JobCheckpoints.find`."""
        from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
        from sparkapp.checkpoint.kubernetes.user_access import as_person

        body = self._resources.read()
        owner = {"namespace": self._namespace, "job": self._name, "uid": str(body["metadata"]["uid"])}
        text, lost = None, None
        try:
            with as_person(self._namespace, names.state_config_map(self._name)):
                text = ConfigMapStore(self._api, **owner, deadline=10).read().text
        except (CheckpointMissing, CheckpointCorrupt) as error:
            # Without a current checkpoint the retained checkpoints matter most.
            lost = error
        with as_person(self._namespace, names.checkpoints_config_map(self._name)):
            texts = ConfigMapRetainedStore(self._api, **owner, deadline=10).read()
        return FoundJob(
            uid=body["metadata"]["uid"],
            text=text,
            lost=lost,
            texts=texts,
            spec=body.get("spec") or {},
            version=body["metadata"]["resourceVersion"],
            kubectl_name=self._kubectl_name,
        )

    def snapshot(self, name: str) -> RetainedCheckpoint:
        """Reads the snapshot and its ConfigMap, see :meth:`JobCheckpoints.snapshot`."""
        return self._resources.read_snapshot(name)

    def request_restore(self, found: FoundJob, restore: Restore) -> str:
        """Patches the resource, see :meth:`JobCheckpoints.request_restore`."""
        # The API server refuses a restore with both targets, and None removes the target of the last restore.
        target = {"checkpoint": restore.checkpoint or None, "snapshot": restore.snapshot or None}
        self._resources.patch_spec({"restore": {**target, "nonce": restore.nonce}}, expected=found.version)
        chosen = ", ".join(f"restore.{name} {value}" for name, value in target.items() if value is not None)
        return (
            f"KafkaSparkJob {self._job} was patched: {chosen}, restore.nonce {restore.nonce}."
            " The job stops at a checkpoint, then restores this checkpoint (event RestoredFromCheckpoint)"
        )


class FileCheckpoints:
    """The state file of ``python3 -m sparkapp run --state FILE``, and its folder of retained checkpoints."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def find(self) -> FoundJob:
        """Reads the state file and its folder, see :meth:`JobCheckpoints.find`."""
        text = stored_text(self._state)
        return FoundJob(uid=_uid(text, self._state), text=text, texts=FolderRetainedStore.next_to(self._state).read())

    def snapshot(self, name: str) -> RetainedCheckpoint:
        """Refuses: snapshots are objects of Kubernetes."""
        msg = f"a job with a state file has no KafkaSparkSnapshot {name}"
        raise CheckpointError(msg, remedy="name a retained checkpoint by its number")

    def request_restore(self, found: FoundJob, restore: Restore) -> str:
        """Changes nothing: the user starts the attempts, so the answer has the fields to set."""
        return (
            f'set "restore": {{"checkpoint": {restore.checkpoint}, "nonce": {restore.nonce}}} in the spec of the'
            " job's description and start the next attempt with it; nothing was changed"
        )


def _uid(text: str, state: Path) -> str:
    """The job's UID in the document: the user who names the file trusts it."""
    try:
        return str(json.loads(text)["jobUid"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"{state} has no checkpoint document: {type(error).__name__}"
        raise InputUnreadable(msg, remedy="name the file that the job was started with: --state FILE") from error


def checkpoints_of(*, state: Path | None, namespace: str, job: str | None, context: str = "") -> JobCheckpoints:
    """The checkpoints that the options name.

    :param context: of the kubeconfig; empty for the current context, or for the pod's identity.
    :param state: state file; it wins over the job.
    :raises CheckpointError: neither a job nor a state file is named.
    """
    if state is not None:
        return FileCheckpoints(state)
    if not job:
        msg = "no job is named"
        raise CheckpointError(msg, remedy="add --job NAME (and --namespace), or --state FILE")
    return ClusterCheckpoints(namespace=namespace, job=job, context=context)
