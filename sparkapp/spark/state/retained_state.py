"""Query state of retained checkpoints, so that a job with state goes back to them (ADR 83).

Spark removes all but the last versions of state. A retained checkpoint has its version in a folder of its own, as hard
links. Files of state are never changed, so a link costs no copy, and it keeps what Spark removes. A volume without hard
links keeps no such versions: a copy of all state each minute would cost more than the job.

The folder of a checkpoint is removed when the checkpoint is neither retained nor pinned by a snapshot. An attempt that
was replaced must not remove what its successor goes back to. So the order is: the entry is dropped from the retained
checkpoints, then the claim is read, then the folder is removed. A successor reads the retained checkpoints behind its
own claim, so it does not find an entry whose folder this attempt still removes. Pins are read after the entry is
dropped, too. The operator writes a pin and looks for the entry behind it, so at least one of both sees the other (ADR
94). Entries are read with the pins: a change whose answer was lost may have written an entry that this attempt does not
know. :func:`still_claimed` and :func:`named` are this order, for a volume and for an object store.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.volume import force_folder, writing_to
from sparkapp.clients.progress import UNWATCHED, Progress
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, checkpoint_of_key
from sparkapp.model.errors import CheckpointUnusable, QueryStateMissing
from sparkapp.model.errors.listed import listed
from sparkapp.spark.state import query_log, state_store_files
from sparkapp.spark.state.adopted_state import adopt
from sparkapp.spark.state.durable_files import DurableFiles

_SHOWN = 3


@contextmanager
def still_claimed(claim: Claim) -> Iterator[None]:
    """Around all that keeps a checkpoint's state. The entry, with or without state, is written behind it.

    The state of a replaced attempt may be removed by its successor, because no entry names it yet.

    :raises CheckpointConflict: another attempt has the claim, whatever else has failed.
    """
    try:
        yield
    finally:
        claim.require()


def named(retained: Collection[int], claim: Claim, entries: RetainedStore) -> set[int]:
    """The checkpoints whose state stays; called after the list of what is there, and before anything is removed.

    :param retained: that the caller knows. The store may have more.
    :raises CheckpointConflict: another attempt has the claim. :raises CheckpointError: it is not known what is named.
    """
    claim.require()
    return {*retained, *(checkpoint_of_key(key) or 0 for key in entries.read()), *entries.pinned()}


@dataclass(frozen=True, slots=True)
class RetainedState:
    """The versions of query state of a job's retained checkpoints; called by the thread that retains checkpoints.

    :param folder: of all attempts' queries, on the volume.
    :param claim: of this attempt.
    :param entries: the retained checkpoints of the job, and what snapshots pin.
    """

    folder: Path
    claim: Claim
    entries: RetainedStore

    def keep(self, document: CheckpointDocument) -> str:
        """Keeps the checkpoint's version of state.

        :param document: of a completed checkpoint, whose files Spark may remove in the meantime.
        :returns: the engine's text for the retained checkpoint; empty for a checkpoint without state.
        :raises QueryStateMissing: Spark has removed the version. :raises CheckpointConflict: another attempt has the
            claim. :raises VolumeFull: and VolumeUnusable: also for a volume without hard links.
        :raises CheckpointUnusable: a snapshot keeps another checkpoint of that number.
        """
        if not document.engine_has_state:
            return ""
        with still_claimed(self.claim):
            return self._kept(document)

    def _kept(self, document: CheckpointDocument) -> str:
        engine = query_log.restored_engine(document)
        source = state_store_files.folder_of_state(self.folder, engine)
        target = state_store_files.retained_folder(self.folder, document.checkpoint_id)
        making = target.with_name(f".{target.name}")
        version = document.checkpoint_id - engine.base
        text = query_log.encode_engine(replace(engine, retained=document.checkpoint_id))
        if state_store_files.engine_text(target) == text:
            return text  # an orderly stop retains the last checkpoint again
        with writing_to(self.folder):
            for left in (making, target):
                if left.exists():  # of an attempt that ended here, or of checkpoints that a restore by hand undid
                    self.claim.require()
                    self._refuse_pinned(left, document.checkpoint_id)
                    shutil.rmtree(left)
            making.mkdir(parents=True)
            try:
                state_store_files.link(
                    source / "state",
                    making / "state",
                    version,
                    engine.state_partitions,
                    may_copy=False,
                    place=target / "state",
                )
            except FileNotFoundError as error:
                raise _gone(document, version, str(error)) from error
        missing = list(state_store_files.missing(making / "state", version, engine.state_partitions))
        if missing:
            raise _gone(document, version, listed(missing, _SHOWN, separator="; "))
        with writing_to(self.folder):
            state_store_files.put_engine_text(making, text)
            DurableFiles(making).force()
            making.rename(target)
            force_folder(str(target.parent))
            force_folder(str(self.folder))
        return text

    def _refuse_pinned(self, folder: Path, checkpoint_id: int) -> None:
        is_kept = folder == state_store_files.retained_folder(self.folder, checkpoint_id)
        if is_kept and checkpoint_id in self.entries.pinned():
            msg = f"a snapshot keeps another checkpoint {checkpoint_id}, from before an earlier state was restored"
            raise CheckpointUnusable(msg)

    def remove_others(self, retained: Collection[int], document: CheckpointDocument) -> None:
        """Removes the state of checkpoints that are retained no longer, and that no snapshot keeps.

        :param retained: numbers of the retained checkpoints, after the others were dropped from their store.
        :param document: the current checkpoint, which may be in the folder of a checkpoint that it went back to.
        :raises CheckpointConflict: another attempt has the claim: nothing is removed.
        :raises CheckpointError: nor where it is not known what snapshots keep.
        """
        current = query_log.decode_engine(document.engine).retained or 0
        there = state_store_files.retained_folders(self.folder)
        if set(there) <= self._folders({*retained, current}):
            return
        kept = self._folders({*named(retained, self.claim, self.entries), current})
        for entry in there:
            if entry not in kept:
                shutil.rmtree(entry, ignore_errors=True)

    def _folders(self, numbers: Collection[int]) -> set[Path]:
        return {state_store_files.retained_folder(self.folder, number) for number in numbers}


@dataclass(frozen=True, slots=True)
class QueryState:
    """What recovery asks the engine about the engine's part of documents; made by the wiring.

    :param folder: of all attempts' queries, on the volume; None for a job that may keep no state.
    :param progress: counts stores, folders and files.
    """

    folder: Path | None = None
    progress: Progress = UNWATCHED

    def rewound(self, engine: str) -> str:
        """See :func:`sparkapp.spark.state.query_log.rewound`."""
        return query_log.rewound(engine)

    def undone(self, document: CheckpointDocument) -> CheckpointDocument:
        """See :func:`sparkapp.spark.state.query_log.undone`."""
        return query_log.undone(document)

    def gone_back(self, engine: str, target: RetainedCheckpoint, *, number: int, attempt: int, recorded: str) -> str:
        """The engine's text for a checkpoint with the state of ``target``, which is on the volume.

        :param number: of the new checkpoint. :param attempt: is not needed, because the document names that folder.
        :param recorded: is not needed either, because nothing is removed.
        :raises CheckpointUnusable: the state is not on the volume, or the text of ``target`` does not name it.
        """
        del attempt, recorded
        text = query_log.restored(engine, target.engine, checkpoint_id=target.checkpoint_id, number=number)
        gone = query_log.decode_engine(text)
        if self.folder is None:
            msg = f"the state of checkpoint {target.checkpoint_id} is on a volume that the job does not have"
            raise CheckpointUnusable(msg, remedy=_REMEDY_VOLUME)
        source = state_store_files.folder_of_state(self.folder, gone)
        missing = list(
            state_store_files.missing(
                source / "state", number - gone.base, gone.state_partitions, progress=self.progress
            )
        )
        if not missing and gone.retained is not None and not state_store_files.is_of(source, target.engine):
            missing = [state_store_files.ANOTHER]
        if missing:
            shown = listed(missing, _SHOWN, separator="; ")
            msg = f"the state of checkpoint {target.checkpoint_id} is not in {source / 'state'}: {shown}"
            raise CheckpointUnusable(msg)
        return text

    def adopted(self, engine: str, target: RetainedCheckpoint, *, number: int, attempt: int, recorded: str) -> str:
        """The engine's text for a checkpoint with the state of another job's checkpoint; see :func:`adopt`."""
        text = query_log.adopted(
            engine, target.engine, checkpoint_id=target.checkpoint_id, number=number, attempt=attempt
        )
        if self.folder is None:
            msg = f"the state of checkpoint {target.checkpoint_id} is on a volume that the job does not have"
            raise CheckpointUnusable(msg, remedy=_REMEDY_ADOPT)
        adopt(self.folder, target, attempt=attempt, recorded=recorded, progress=self.progress)
        return text


def _gone(document: CheckpointDocument, version: int, what: str) -> QueryStateMissing:
    msg = f"version {version} of the state of checkpoint {document.checkpoint_id} was removed while it was kept: {what}"
    return QueryStateMissing(msg)


_REMEDY_ADOPT = (
    "set spec.checkpoint.stateVolume.claimName to the claim of the job that wrote the snapshot. Or to a claim that has"
    " a copy of the state's folder, status.checkpoint.stateFolder of the snapshot"
)
_REMEDY_VOLUME = "put spec.checkpoint.stateVolume back as it was, or remove spec.restore.checkpoint"
