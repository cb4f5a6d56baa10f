"""Retained checkpoints: their stores, and the thread that writes them without a delay for the job."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.volume import write_durably, writing_to
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import (
    Held,
    RetainedCheckpoint,
    checkpoint_of_key,
    retained,
    retained_key,
    surplus,
)
from sparkapp.model.checkpoint.retained_codec import MAX_RETAINED_BYTES, decode_retained, encode_retained
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointStoreUnavailable,
    CheckpointUnusable,
    KafkaSparkJobError,
)
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.sections.retention import Retention

LOG = logging.getLogger(__name__)

_CLOSE_SECONDS = 15.0
"""For a write that runs when an attempt fails: the next attempt retains, too."""
_LAST_SECONDS = 60.0
"""For the last checkpoint of an orderly stop: as long as a store may be busy, and half of a driver's grace period."""


class StateOfCheckpoints(Protocol):
    """Query state of retained checkpoints: in jobs :class:`sparkapp.spark.state.retained_state.RetainedState`.

    That of an object store is :class:`sparkapp.spark.state.object_store.retained_state.StoredRetainedState`.
    """

    def keep(self, document: CheckpointDocument) -> str:
        """Keeps the checkpoint's version; called before the checkpoint is retained.

        :returns: the engine's text to retain; empty for a checkpoint without state.
        :raises CheckpointConflict: another attempt has the claim: the checkpoint must not be retained.
        :raises CheckpointStoreUnavailable: nor where it is not known who has it.
        :raises KafkaSparkJobError: it cannot be kept.
        """
        ...

    def remove_others(self, retained: Collection[int], document: CheckpointDocument) -> None:
        """Removes what belongs to no checkpoint in ``retained``; called after the others were dropped.

        An entry that the caller does not know keeps its state, too.

        :param document: the current checkpoint. :raises KafkaSparkJobError: another attempt may need it.
        """
        ...


class _NoState:
    """A job that keeps no state, or whose volume has none."""

    def keep(self, document: CheckpointDocument) -> str:
        del document
        return ""

    def remove_others(self, retained: Collection[int], document: CheckpointDocument) -> None:
        del retained, document


class RetainedStore(Protocol):
    """Holds texts by name, for one job. Used by recovery, then by the retainer's thread."""

    def read(self) -> dict[str, str]:
        """All entries, of any writer; empty where the ConfigMap or folder does not exist.

        :raises CheckpointError: it cannot be read.
        """
        ...

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        """Adds, replaces and removes entries.

        :raises CheckpointError: the change may or may not have taken effect.
        """
        ...

    def pinned(self) -> Collection[int]:
        """The checkpoints whose query state snapshots keep, also after their entries are dropped.

        :raises CheckpointError: it is not known.
        """
        ...


class FolderRetainedStore:
    """A folder on a local disk, next to the checkpoint's file, for jobs that run without Kubernetes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def next_to(cls, state: Path) -> FolderRetainedStore:
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

    def pinned(self) -> Collection[int]:
        return ()  # snapshots are objects of Kubernetes


class CheckpointRetainer:
    """Retains completed checkpoints at intervals, in its own thread: it neither delays nor fails a checkpoint.

    Made by the driver once recovery is done; :meth:`offer` is called with each completed checkpoint, whose
    transactions are all committed. Behind an orderly stop nobody retains its last checkpoint any more. So
    :meth:`close` waits for that before the document says that the stop was orderly (ADR 117).

    :param claim: of the attempt.
    :param latest: the checkpoint that the attempt resumes from.
    :param tell: receives an event's reason and message, when checkpoints cannot be retained: once, and for the last.
    :param draining: whether a stop is asked for. A restore of the oldest checkpoint may be the cause.
    :param state: of retained checkpoints; None for a job that may keep none.
    """

    def __init__(
        self,
        store: RetainedStore,
        *,
        claim: Claim,
        retention: Retention,
        latest: int,
        tell: Callable[[DriverEvent, str], None],
        draining: Callable[[], bool],
        state: StateOfCheckpoints | None = None,
    ) -> None:
        self._store = store
        self._state = _NoState() if state is None else state
        self._claim = claim
        self._retention = retention
        self._latest = latest
        self._tell = tell
        self._draining = draining
        self._told = False
        self._held: dict[str, Held] | None = None
        self._undone: list[str] = []
        """Checkpoints ahead of the job: somebody restored an earlier state, and their numbers will be used again."""
        self._kept_at: datetime | None = None
        """Time of the last retained checkpoint or of the last failure, by the documents' times."""
        self._condition = threading.Condition()
        self._newest: CheckpointDocument | None = None
        self._ends: Deadline | None = None
        self._thread = threading.Thread(target=self._run, name="checkpoint-retainer", daemon=True)
        self._thread.start()

    def offer(self, document: CheckpointDocument) -> None:
        """Takes a final, visible checkpoint and returns at once. A newer checkpoint replaces a waiting checkpoint."""
        with self._condition:
            self._newest = document
            self._condition.notify_all()

    def close(self, last: CheckpointDocument | None = None) -> None:
        """Ends the thread after it has processed the last checkpoint, and returns then, or when its time is over.

        :param last: of an orderly stop, which is retained whatever the interval. Without it the attempt has failed.
        """
        if last is not None and self._retention.count:
            self.offer(replace(last, drained=True))
        with self._condition:
            if self._ends is None:
                self._ends = Deadline.after(_CLOSE_SECONDS if last is None else _LAST_SECONDS)
            self._condition.notify_all()
        self._thread.join(self._ends.remaining)
        if self._thread.is_alive() and last is not None:
            self._failed(f"checkpoint {last.checkpoint_id}", "it did not end in time", is_last=True)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._newest is not None or self._ends is not None)
                document, self._newest = self._newest, None
            if document is None:
                return
            time = datetime.fromisoformat(document.created_at)
            if document.checkpoint_id == 0 or not (document.drained or self._due(time)):
                continue
            try:
                self._keep(document)
            except CheckpointConflict as error:
                LOG.info("checkpoint %d is not retained: %s", document.checkpoint_id, error.message)
            except Exception as error:
                self._kept_at = time
                if self._held is not None:
                    # The change may have taken effect, so the entries are read again. None of ours is ahead of the job.
                    self._held, self._latest = None, document.checkpoint_id
                self._failed(f"checkpoint {document.checkpoint_id}", _text(error), is_last=document.drained)

    def _keep(self, document: CheckpointDocument) -> None:
        """Retains the checkpoint and drops the surplus.

        A drain drops nothing because of the count, and removes no state: a restore of the oldest checkpoint may follow.
        The next attempt drops the surplus after its restore.
        """
        if self._held is None:
            self._held = self._load()
        checkpoint = retained(document)
        held = dict(self._held)
        put: dict[str, str] = {}
        # Checked again: now the time of the newest checkpoint of previous attempts is known.
        if self._retention.count and (checkpoint.orderly or self._due(checkpoint.time)):
            self._kept_at = checkpoint.time
            key = retained_key(checkpoint.checkpoint_id)
            engine = self._kept_state(document)
            # An entry of an earlier attempt may have the state that cannot be looked at now.
            if engine or not document.engine_has_state or key not in held or not held[key].usable:
                put = {key: encode_retained(replace(checkpoint, engine=engine))}
                held[key] = _held(key, put[key], usable=True)
        draining = self._draining()
        count = len(held) if draining else self._retention.count
        drop = surplus(held.values(), count=count, budget=MAX_RETAINED_BYTES)
        drop += [key for key in self._undone if key not in put]
        if not put and not drop:
            return
        self._claim.require()  # an attempt that was replaced would drop what its successor retains
        self._store.change(put, drop)
        self._undone = []
        self._held = {key: entry for key, entry in held.items() if key not in drop}
        if not draining:
            self._state.remove_others([checkpoint_of_key(key) or 0 for key in self._held], document)

    def _kept_state(self, document: CheckpointDocument) -> str:
        """Without its state a checkpoint still says from which offsets another job would begin."""
        try:
            return self._state.keep(document)
        except (CheckpointConflict, CheckpointStoreUnavailable):
            raise  # a successor, which there may be, removes the state as that of no checkpoint
        except KafkaSparkJobError as error:
            what = f"the state of checkpoint {document.checkpoint_id}"
            self._failed(what, error.message, is_last=document.drained)
            return ""

    def _due(self, time: datetime) -> bool:
        # A clock that was set back must not end the retention.
        since = None if self._kept_at is None else (time - self._kept_at).total_seconds()
        return since is None or since < 0 or since >= self._retention.interval_seconds

    def _load(self) -> dict[str, Held]:
        texts = self._store.read()
        found: dict[str, RetainedCheckpoint] = {}
        for key, text in texts.items():
            try:
                found[key] = decode_retained(text, key=key, job_uid=self._claim.job_uid)
            except CheckpointUnusable as error:
                LOG.warning("%s", error.message)
        ahead = {key for key, checkpoint in found.items() if checkpoint.checkpoint_id > self._latest}
        self._undone = [key for key in found if key in ahead or key in self._undone]
        usable = {key: checkpoint for key, checkpoint in found.items() if key not in self._undone}
        if usable:
            self._kept_at = max(usable.values(), key=lambda checkpoint: checkpoint.checkpoint_id).time
        return {key: _held(key, text, usable=key in usable) for key, text in texts.items() if key not in self._undone}

    def _failed(self, what: str, why: str, *, is_last: bool) -> None:
        follows = "it is the last of the stop" if is_last else "the job continues"
        message = f"{what} could not be retained ({follows}): {why}"
        LOG.warning("%s", message)
        if is_last or not self._told:
            self._told = True
            self._tell(DriverEvent.CHECKPOINT_NOT_KEPT, message)


def _text(error: Exception) -> str:
    return error.message if isinstance(error, KafkaSparkJobError) else f"{type(error).__name__}: {error}"


def _held(key: str, text: str, *, usable: bool) -> Held:
    return Held(key, len(text.encode("utf-8", "surrogatepass")), usable)
