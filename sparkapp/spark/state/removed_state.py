"""Removes the query state of a deleted job from its volume, but what snapshots keep (ADR 101).

The order is that of :mod:`sparkapp.spark.state.retained_state`: the entries of retained checkpoints are dropped, then
the claim and the pins are read, then folders are removed. A snapshot that is made meanwhile has written its pin before
it looks for the entry. So either its pin is seen here, or it finds no entry and is not made. The folder has the UID of
the job: a job that is created again under the same name has another folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.volume import writing_to
from sparkapp.spark.state import state_store_files


def remove_state(folder: Path, *, claim: Claim, retained: RetainedStore) -> str:
    """Called by the last attempt of a deleted job, which has settled the job's transactions.

    :param folder: of all attempts' queries, on the volume.
    :param claim: of this attempt.
    :param retained: of the job. Its entries are dropped.
    :returns: what was done, as a text for people.
    :raises CheckpointError: another attempt has the claim, or it is not known what snapshots keep: nothing is removed.
    :raises VolumeUnusable: a folder is left. The next try continues.
    """
    if entries := retained.read():
        retained.change({}, entries)
    claim.require()
    pinned = {state_store_files.retained_folder(folder, number) for number in retained.pinned()}
    kept = sorted(entry.name for entry in state_store_files.retained_folders(folder) if entry in pinned)
    if not folder.is_dir():
        return f"the volume has no folder {folder.name}"
    with writing_to(folder):
        if not kept:
            shutil.rmtree(folder)
            return f"folder {folder.name} of the volume is removed"
        for entry in [*folder.iterdir(), *state_store_files.retained_folders(folder)]:
            if entry in pinned or entry == folder / "retained":
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    return f"folder {folder.name} of the volume has only what snapshots keep: {', '.join(kept)}"
