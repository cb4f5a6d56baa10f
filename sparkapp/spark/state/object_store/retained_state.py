"""Query state of retained checkpoints in an object store: kept by copies, each table once (ADR 106).

The order of a removal is that of :mod:`sparkapp.spark.state.retained_state`: entries are dropped, the claim is read,
the pins are read, objects are removed. The list of what is there is made before the claim is read. So an attempt that
was replaced removes nothing that its successor writes.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.retained import RetainedStore, StateOfCheckpoints
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained_key
from sparkapp.model.errors import QueryStateMissing
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.spec import Job
from sparkapp.spark.state import query_log, state_store_files
from sparkapp.spark.state.listed_folder import ListedFolder
from sparkapp.spark.state.object_store import retained_folder
from sparkapp.spark.state.object_store.retained_folder import (
    Manifest,
    RetainedFolder,
    RetainedObjects,
    find,
    is_table,
)
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.object_store.versions import attempt_folder
from sparkapp.spark.state.retained_state import RetainedState, named, still_claimed

_SHOWN = 3


@dataclass(slots=True)
class StoredRetainedState:
    """See :class:`sparkapp.checkpoint.retained.StateOfCheckpoints`; called by the thread that retains checkpoints.

    :param store: the folder of the job. :param attempt: whose claim ``claim`` is.
    :param entries: the retained checkpoints of the job, and what snapshots pin.
    """

    store: ObjectStore
    attempt: int
    claim: Claim
    entries: RetainedStore
    _tables: dict[str, int] = field(default_factory=dict)
    """Bytes of the tables that this attempt has copied, by their paths below ``state``."""
    _manifests: dict[RetainedFolder, Manifest] = field(default_factory=dict)

    def keep(self, document: CheckpointDocument) -> str:
        """Keeps the checkpoint's version of state.

        :param document: of a completed checkpoint, whose objects Spark may remove in the meantime.
        :returns: the engine's text for the retained checkpoint; empty for a checkpoint without state.
        :raises QueryStateMissing: Spark has removed the version. :raises CheckpointConflict: another attempt has the
            claim, and may not see what this attempt retains. :raises StateStoreUnusable: as its name says.
        """
        if not document.engine_has_state:
            return ""
        with still_claimed(self.claim):
            return self._kept(document)

    def _kept(self, document: CheckpointDocument) -> str:
        engine = query_log.restored_engine(document)
        text = query_log.encode_engine(replace(engine, retained=document.checkpoint_id))
        if not self._is_kept(document.checkpoint_id, engine, text):
            folder = RetainedFolder(document.checkpoint_id, self.attempt)
            try:
                self._manifests[folder] = self._copied(folder, document, engine, text)
            except FileNotFoundError as error:
                msg = f"the state of checkpoint {document.checkpoint_id} was removed while it was kept: {error}"
                raise QueryStateMissing(msg) from error
        return text

    def remove_others(self, retained: Collection[int], document: CheckpointDocument) -> None:
        """Removes the state of checkpoints that are retained no longer, and that no snapshot keeps.

        :param retained: numbers of the retained checkpoints, after the others were dropped from their store.
        :raises CheckpointConflict: another attempt has the claim: nothing is removed.
        :raises CheckpointError: nor where it is not known what snapshots keep.
        :raises StateStoreUnusable: some of it may be left.
        """
        del document  # it names no retained state: a restore copies
        there = RetainedObjects.of(self.store)
        kept = there.manifests(self.store, retained, known=self._manifests)
        if not any(there.others(kept, self.attempt)):
            return
        numbers = named(retained, self.claim, self.entries)
        kept = there.manifests(self.store, numbers, known=self._manifests)
        folders, tables = there.others(kept, self.attempt)
        self._manifests = kept
        for attempt, name in tables:  # before the request: it may fail when some are gone
            if attempt == self.attempt:
                self._tables.pop(name, None)
        retained_folder.remove(self.store, folders, tables)

    def _is_kept(self, checkpoint_id: int, engine: query_log.EngineState, text: str) -> bool:
        """Whether the checkpoint is retained already: an orderly stop retains the last checkpoint again.

        That of an earlier attempt counts while it has its entry: nobody removes it then.
        """
        own = self._manifests.get(RetainedFolder(checkpoint_id, self.attempt))
        if own is not None or engine.attempt == self.attempt:
            return own is not None and own.engine == text
        if retained_key(checkpoint_id) not in self.entries.read():
            return False
        with suppress(FileNotFoundError):
            find(self.store, checkpoint_id, text)
            return True
        return False

    def _copied(
        self, folder: RetainedFolder, document: CheckpointDocument, engine: query_log.EngineState, text: str
    ) -> Manifest:
        """:raises FileNotFoundError: an object is gone."""
        version, source = document.checkpoint_id - engine.base, f"{attempt_folder(engine.attempt)}/state"
        sizes = self.store.sizes(source)
        read: dict[str, bytes] = {}

        def remembered(path: str) -> bytes:
            if path not in read:
                read[path] = self.store.read(path)
            return read[path]

        root = ListedFolder.of(source, sizes, remembered)
        _require(root, version, engine.state_partitions)
        names = state_store_files.needed(root, sizes.keys(), version, engine.state_partitions)
        # Spark may write a snapshot again, with other tables: what was read is what is kept.
        contents = {name: read[f"{source}/{name}"] for name in names if f"{source}/{name}" in read}
        files = {name: len(contents.get(name, b"")) or sizes[name] for name in names if not is_table(name)}
        tables = {name: sizes[name] for name in names if is_table(name)}
        new = tables.keys() - self._tables.keys()
        self.store.copy({f"{folder.tables}/{name}": f"{source}/{name}" for name in new})
        self._tables |= {name: tables[name] for name in new}
        self.store.copy({f"{folder.path}/state/{name}": f"{source}/{name}" for name in files if name not in contents})
        for name, content in contents.items():
            self.store.write(f"{folder.path}/state/{name}", content)
        manifest = Manifest(text, files, tables)
        gaps = list(folder.lacks(self.store, manifest))
        if gaps:
            raise FileNotFoundError(listed(gaps, _SHOWN, separator="; "))
        self.store.write(folder.manifest, manifest.encode())
        return manifest


def retained_state_of(
    job: Job, claim: Claim, entries: RetainedStore, *, folder: Path | None, stored: ObjectStore | None
) -> StateOfCheckpoints | None:
    """Keeps the state of a job's retained checkpoints; None for a job that may keep none.

    Called by the wiring of an attempt, and by the last attempt of a deleted job.

    :param claim: of the attempt. :param entries: the retained checkpoints.
    :param folder: of all attempts' queries, on the volume; None for a job without a volume.
    :param stored: the folder of the job in the object store that has its state; None where a volume has it.
    """
    if stored is not None:
        return StoredRetainedState(stored, job.attempt, claim, entries)
    return None if folder is None else RetainedState(folder, claim, entries)


def _require(root: ListedFolder, version: int, partitions: int) -> None:
    gaps = list(state_store_files.missing(root, version, partitions))
    if gaps:
        raise FileNotFoundError(listed(gaps, _SHOWN, separator="; "))
