"""Where the commands for people find a job: in Kubernetes by its name, or on this machine by its state file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sparkapp.checkpoint.restore import retained_checkpoints
from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.checkpoint.store import FileStore
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.checkpoint_codec import decode
from sparkapp.model.errors import CheckpointCorrupt, CheckpointError, CheckpointMissing, CheckpointUnusable
from sparkapp.model.retained import RetainedCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job's checkpoints as they are now.

    :param uid: the life of the resource whose checkpoints count.
    :param text: the current document's text; None before the first attempt has claimed the state.
    :param lost: why there is no text to be had at all.
    :param texts: of the earlier ones, by key.
    :param spec: the resource's, empty for a state file.
    :param version: the resource's, for a change of it.
    """

    uid: str
    text: str | None
    texts: dict[str, str]
    spec: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    lost: CheckpointError | None = None

    def current(self) -> CheckpointDocument:
        """:raises CheckpointError: there is none yet, or it cannot be trusted."""
        if self.lost is not None:
            raise self.lost
        if self.text is None:
            msg = "the job has no checkpoint yet"
            raise CheckpointMissing(msg, remedy="start the job; kubectl describe ksj NAME says what keeps it")
        return decode(self.text, job_uid=self.uid)

    def earlier(self) -> list[RetainedCheckpoint | CheckpointUnusable]:
        """Newest first; what cannot be used is there as its error."""
        return retained_checkpoints(self.texts, job_uid=self.uid)


class JobPlace(Protocol):
    def find(self) -> FoundJob:
        """:raises CheckpointError: there is no such job, or no answer."""
        ...

    def request_restore(self, found: FoundJob, *, checkpoint: int, nonce: int) -> str:
        """Asks for a restore; what was done, in words.

        :raises CheckpointError: the job has changed since it was found, or no answer.
        """
        ...


class KubernetesPlace:
    """The resource and its ConfigMaps, with the identity of the kubeconfig or of the pod."""

    def __init__(self, *, namespace: str, job: str) -> None:
        from sparkapp.checkpoint.config_map import ConfigMapRetainedStore, ConfigMapStore, JobResources, core_api

        api = core_api()
        self._job = f"{namespace}/{job}"
        self._state = ConfigMapStore(api, namespace=namespace, job=job, deadline=10)
        self._retained = ConfigMapRetainedStore(api, namespace=namespace, job=job, deadline=10)
        self._resources = JobResources(namespace=namespace, job=job)

    def find(self) -> FoundJob:
        body = self._resources.read()
        text, lost = None, None
        try:
            text = self._state.read().text
        except (CheckpointMissing, CheckpointCorrupt) as error:
            # Earlier checkpoints are looked for most of all when there is no other one.
            lost = error
        return FoundJob(
            uid=body["metadata"]["uid"],
            text=text,
            lost=lost,
            texts=self._retained.read(),
            spec=body.get("spec") or {},
            version=body["metadata"]["resourceVersion"],
        )

    def request_restore(self, found: FoundJob, *, checkpoint: int, nonce: int) -> str:
        patch = {"restoreFrom": {"checkpoint": checkpoint}, "redeployNonce": nonce}
        self._resources.patch_spec(patch, expected=found.version)
        return (
            f"KafkaSparkJob {self._job} was patched: restoreFrom.checkpoint {checkpoint}, redeployNonce {nonce}; the"
            " job stops at a checkpoint and goes back (event RestoredFromCheckpoint)"
        )


class FilePlace:
    """The state file of ``python -m sparkapp run --state FILE``, and the folder beside it."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def find(self) -> FoundJob:
        text = FileStore(self._state).read().text
        if text is None:
            msg = f"there is no state file {self._state}"
            raise CheckpointMissing(msg, remedy="name the file that the job was started with: --state FILE")
        return FoundJob(uid=_uid(text), text=text, texts=FolderRetainedStore.beside(self._state).read())

    def request_restore(self, found: FoundJob, *, checkpoint: int, nonce: int) -> str:
        return (
            f'set "restore": {{"checkpoint": {checkpoint}, "nonce": {nonce}}} in the spec of the job\'s description and'
            " start the next attempt with it; nothing else was changed"
        )


def _uid(text: str) -> str:
    """Whoever names the file vouches for it: its job is the one it says."""
    try:
        return str(json.loads(text)["jobUid"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"the state file holds no checkpoint document: {error!r}"
        raise CheckpointCorrupt(msg) from error


def place_of(*, state: Path | None, namespace: str, job: str | None) -> JobPlace:
    """:raises CheckpointError: neither a job nor a state file is named."""
    if state is not None:
        return FilePlace(state)
    if not job:
        msg = "no job is named"
        raise CheckpointError(msg, remedy="add --job NAME (and --namespace), or --state FILE")
    return KubernetesPlace(namespace=namespace, job=job)
