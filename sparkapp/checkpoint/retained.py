"""Where earlier checkpoints are kept, and who keeps them: beside the checkpoints' way, never on it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from sparkapp.checkpoint.volume import write_durably, writing_to
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import CheckpointUnusable, KafkaSparkJobError
from sparkapp.model.retained import (
    Held,
    RetainedCheckpoint,
    checkpoint_of_key,
    retained,
    retained_key,
    surplus,
)
from sparkapp.model.retained_codec import MAX_RETAINED_BYTES, decode_retained, encode_retained
from sparkapp.model.retention import Retention

LOG = logging.getLogger(__name__)

_CLOSE_SECONDS = 15.0


class RetainedStore(Protocol):
    """Holds texts by name; one place a job. Used by the retainer's thread and, before that, by recovery."""

    def read(self) -> dict[str, str]:
        """Everything in it, whoever wrote it; empty where the place itself is gone.

        :raises CheckpointError: it cannot be read.
        """
        ...

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        """Adds, replaces and removes entries.

        :raises CheckpointError: it may or may not have taken effect.
        """
        ...


class MemoryRetainedStore:
    """For one process: unit tests and benches."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self.texts = dict(texts or {})

    def read(self) -> dict[str, str]:
        return dict(self.texts)

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        self.texts.update(put)
        for key in drop:
            self.texts.pop(key, None)


class FolderRetainedStore:
    """A folder on a local disk, beside the checkpoint's file, for jobs that run without Kubernetes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def beside(cls, state: Path) -> FolderRetainedStore:
        """The folder that belongs to the checkpoint file of ``--state``."""
        return cls(state.with_name(f"{state.name}.checkpoints"))

    def read(self) -> dict[str, str]:
        if not self._folder.is_dir():
            return {}
        return {
            file.name: file.read_text(encoding="utf-8", errors="replace")
            for file in self._folder.iterdir()
            if checkpoint_of_key(file.name) is not None
        }

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        with writing_to(self._folder):
            self._folder.mkdir(exist_ok=True)
        for key, text in put.items():
            write_durably(self._folder / key, text)
        for key in drop:
            (self._folder / key).unlink(missing_ok=True)


class CheckpointRetainer:
    """Keeps completed checkpoints now and then, in a thread of its own: it never delays and never fails one.

    Made by the driver once recovery is done; :meth:`offer` is called with each completed checkpoint, whose
    transactions are all committed.

    :param latest: the checkpoint that the attempt goes on from.
    :param tell: told once, with an event's reason and message, that checkpoints cannot be kept.
    """

    def __init__(
        self, store: RetainedStore, *, job_uid: str, retention: Retention, latest: int, tell: Callable[[str, str], None]
    ) -> None:
        self._store = store
        self._job_uid = job_uid
        self._retention = retention
        self._latest = latest
        self._tell = tell
        self._told = False
        self._held: dict[str, Held] | None = None
        self._undone: list[str] = []
        """Ahead of the job: the state was put back by hand, and their numbers will be given once more."""
        self._kept_at: datetime | None = None
        """When the last one was kept, or tried to; by the documents' times."""
        self._condition = threading.Condition()
        self._newest: CheckpointDocument | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="checkpoint-retainer", daemon=True)
        self._thread.start()

    def offer(self, document: CheckpointDocument) -> None:
        """A checkpoint is final and visible; returns at once. One that waits is replaced by a newer one."""
        with self._condition:
            self._newest = document
            self._condition.notify_all()

    def close(self) -> None:
        """Ends the thread, after it has looked at the last checkpoint."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            LOG.warning("a checkpoint is still being kept at the end and is given up")

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._newest is not None or self._closed)
                document, self._newest = self._newest, None
            if document is None:
                return
            time = datetime.fromisoformat(document.created_at)
            if document.checkpoint_id == 0 or not (document.drained or self._due(time)):
                continue
            try:
                self._keep(retained(document))
            except Exception as error:
                self._kept_at = time
                self._failed(document.checkpoint_id, error)

    def _keep(self, one: RetainedCheckpoint) -> None:
        """Keeps the checkpoint, and drops what there is no more room for.

        An orderly stop drops nothing for the number's sake: it may be on the way back to the oldest one, and the next
        attempt drops what is too many once it has gone back.
        """
        if self._held is None:
            self._held = self._load()
        held = dict(self._held)
        put: dict[str, str] = {}
        # Asked again: by now it is known what former attempts have kept.
        if self._retention.count and (one.orderly or self._due(one.time)):
            self._kept_at = one.time
            key = retained_key(one.checkpoint_id)
            put = {key: encode_retained(one)}
            held[key] = _held(key, put[key], usable=True)
        count = self._retention.count + (1 if put and one.orderly else 0)
        drop = surplus(held.values(), count=count, budget=MAX_RETAINED_BYTES)
        drop += [key for key in self._undone if key not in put]
        if not put and not drop:
            return
        self._store.change(put, drop)
        self._undone = []
        self._held = {key: entry for key, entry in held.items() if key not in drop}

    def _due(self, time: datetime) -> bool:
        # A clock that was set back must not end the keeping.
        since = None if self._kept_at is None else (time - self._kept_at).total_seconds()
        return since is None or since < 0 or since >= self._retention.interval_seconds

    def _load(self) -> dict[str, Held]:
        texts = self._store.read()
        found: dict[str, RetainedCheckpoint] = {}
        for key, text in texts.items():
            try:
                found[key] = decode_retained(text, key=key, job_uid=self._job_uid)
            except CheckpointUnusable as error:
                LOG.warning("%s", error.message)
        self._undone = [key for key, one in found.items() if one.checkpoint_id > self._latest]
        usable = {key: one for key, one in found.items() if key not in self._undone}
        if usable:
            self._kept_at = max(usable.values(), key=lambda one: one.checkpoint_id).time
        return {key: _held(key, text, usable=key in usable) for key, text in texts.items() if key not in self._undone}

    def _failed(self, checkpoint_id: int, error: Exception) -> None:
        why = error.message if isinstance(error, KafkaSparkJobError) else f"{type(error).__name__}: {error}"
        message = f"checkpoint {checkpoint_id} could not be kept to go back to (the job goes on): {why}"
        LOG.warning("%s", message)
        if not self._told:
            self._told = True
            self._tell("CheckpointNotKept", message)


def _held(key: str, text: str, *, usable: bool) -> Held:
    return Held(key, len(text.encode("utf-8", "surrogatepass")), usable)
