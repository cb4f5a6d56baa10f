"""A job begins with the state of another job, which a snapshot keeps on a volume that both mount (ADR 94).

The files are linked or copied into the folder of the attempt, before the document names it. So the other job's folder
is only read, and the snapshot and its job may be deleted as soon as the document is written. Two attempts never write
into one folder: an attempt that was replaced changes nothing that the document of its successor names.
"""

from __future__ import annotations

import re
from pathlib import Path

from sparkapp.checkpoint.volume import writing_to
from sparkapp.clients.progress import UNWATCHED, Progress
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.errors import CheckpointUnusable, VolumeUnusable
from sparkapp.model.errors.listed import listed
from sparkapp.spark.state import query_log, state_store_files
from sparkapp.spark.state.durable_files import DurableFiles

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""UIDs of jobs name folders, and a snapshot that somebody has imported may have any text there."""
_SHOWN = 3


def adopt(
    folder: Path, target: RetainedCheckpoint, *, attempt: int, recorded: str, progress: Progress = UNWATCHED
) -> None:
    """Makes the folder of the attempt with the state of another job's checkpoint, on the disk.

    Called by recovery behind the claim, before the document names the folder.

    :param folder: of this job's queries, on the volume; that of the other job is its neighbour.
    :param target: the checkpoint of the snapshot, whose engine text names retained state.
    :param recorded: the engine's text of the document in the store, whose folder stays.
    :param progress: counts stores, folders and files.
    :raises CheckpointUnusable: the state is not on the volume, or not whole, or that of another checkpoint.
    :raises VolumeFull: and VolumeUnusable: the folder is incomplete; the next attempt makes another.
    """
    refuse_without_job(target)
    engine = query_log.decode_engine(target.engine)
    version = target.checkpoint_id - engine.base
    source = state_store_files.retained_folder(folder.parent / target.job_uid, target.checkpoint_id)
    own = state_store_files.folder_of(folder, attempt)
    gaps = list(state_store_files.missing(source / "state", version, engine.state_partitions, progress=progress))
    if not gaps and not state_store_files.is_of(source, target.engine):
        gaps = [state_store_files.ANOTHER]
    if gaps:
        raise _missing(target, source, gaps)
    named = state_store_files.folder_of_state(folder, query_log.decode_engine(recorded))
    state_store_files.remove_settled(folder, attempt, {named}, progress)
    state_store_files.remove(own, progress)
    with writing_to(folder):
        own.mkdir(parents=True)
        state_store_files.link(source / "state", own / "state", version, engine.state_partitions, progress=progress)
    gaps = list(state_store_files.missing(own / "state", version, engine.state_partitions, progress=progress))
    if gaps:  # the snapshot was deleted just now, or this attempt was replaced: the next look says what is there
        msg = f"the copy of state in {own / 'state'} is not whole: {listed(gaps, _SHOWN, separator='; ')}"
        raise VolumeUnusable(msg)
    DurableFiles(own, progress).force()


def refuse_without_job(target: RetainedCheckpoint) -> None:
    """:raises CheckpointUnusable: the UID of the snapshot's job cannot be the name of a folder."""
    if not _UID.fullmatch(target.job_uid):
        msg = f"the snapshot names no job: {target.job_uid[:100]!r}"
        raise CheckpointUnusable(msg)


def _missing(target: RetainedCheckpoint, source: Path, gaps: list[str]) -> CheckpointUnusable:
    shown = listed(gaps, _SHOWN, separator="; ")
    place = Path(*source.parts[-3:])
    whose = f"the state of checkpoint {target.checkpoint_id} of the job with UID {target.job_uid}"
    remedy = (
        "mount the volume of that job (spec.checkpoint.stateVolume.claimName), or copy its folder"
        f" {place} to the same place of this volume; then change spec.restartNonce"
    )
    return CheckpointUnusable(f"{whose} is not in {source}: {shown}", remedy=remedy)
