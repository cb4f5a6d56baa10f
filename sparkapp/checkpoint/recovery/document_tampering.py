"""Changes of the document by people, detected by the retained checkpoints.

A signature would not help: a user who may write the document could write it, too. Retained checkpoints are no
proof either, but they reveal mistakes.
"""

from __future__ import annotations

import logging

from sparkapp.checkpoint.recovery.restore import retained_checkpoints
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.model import commands
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.state_config_map import way_back
from sparkapp.model.errors import CheckpointError, CheckpointMissing
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.spec import Job

LOG = logging.getLogger(__name__)


def refuse_lost_state(job: Job, store: RetainedStore) -> None:
    """Called by recovery where the state is empty, as it is at a job's first start.

    :raises CheckpointMissing: a checkpoint of this job is retained, so this is not the first start. The operator makes
        the same check by the status.
    :raises CheckpointError: the retained checkpoints cannot be read.
    """
    kept = _kept(store, job.uid)
    if not kept:
        return
    last = kept[0]
    msg = f"the state is empty, although checkpoint {last.checkpoint_id} of {last.created_at} is retained"
    remedy = f"{way_back(job.namespace, job.name)}\nor start from source.startup:\n{commands.create_again(job)}"
    raise CheckpointMissing(msg, remedy=remedy)


def signs_of_edit(document: CheckpointDocument, store: RetainedStore) -> str:
    """Evidence that somebody changed the document, as text for an event; empty without evidence.

    Called by recovery. An edit is respected, so it must be visible. A later retained checkpoint reveals an older
    document. Changed offsets are revealed where this very document is retained, as after each orderly stop. Its time
    tells it from a checkpoint that a later attempt wrote under the same number.
    """
    try:
        kept = _kept(store, document.job_uid)
    except CheckpointError as error:
        LOG.warning("the check for edits of the state failed: %s", error.message)
        return ""
    number = document.checkpoint_id
    if kept and kept[0].checkpoint_id > number:
        last = kept[0]
        return (
            f"the state is at checkpoint {number}, although {last.checkpoint_id} of {last.created_at} is retained:"
            " somebody restored it, and the records in between are read and written again"
        )
    for checkpoint in kept:
        if (checkpoint.checkpoint_id, checkpoint.created_at) == (number, document.created_at):
            return _moved(document, checkpoint)
    return ""


def _moved(document: CheckpointDocument, kept: RetainedCheckpoint) -> str:
    offsets = document.offsets
    every = sorted(offsets.keys() | kept.offsets.keys())
    moved = [
        f"{partition} {kept.offsets.get(partition, 'unknown')} -> {offsets.get(partition, 'unknown')}"
        for partition in every
        if offsets.get(partition) != kept.offsets.get(partition)
    ]
    if not moved:
        return ""
    return f"offsets of checkpoint {document.checkpoint_id} were edited, the job resumes from there: {listed(moved)}"


def _kept(store: RetainedStore, job_uid: str) -> list[RetainedCheckpoint]:
    """Newest first."""
    found = retained_checkpoints(store.read(), job_uid=job_uid)
    return [checkpoint for checkpoint in found if isinstance(checkpoint, RetainedCheckpoint)]
