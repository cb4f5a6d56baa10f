"""What people do to the document, told by the earlier checkpoints that are kept beside it.

There is no seal on the document: whoever may write it may write a seal as well. What is kept is no proof either, but it
notices what happens by mistake.
"""

from __future__ import annotations

import logging

from sparkapp.checkpoint.restore import retained_checkpoints
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.model import commands
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import CheckpointError, CheckpointMissing
from sparkapp.model.job import Job
from sparkapp.model.retained import RetainedCheckpoint
from sparkapp.model.state_config_map import way_back

LOG = logging.getLogger(__name__)

_SHOWN = 5


def refuse_lost_state(job: Job, store: RetainedStore) -> None:
    """Called by recovery where the state is empty, as it is at a job's first start.

    :raises CheckpointMissing: a checkpoint of this job is kept, so this is not the first start. The operator asks the
        status the same question; only both can be wrong.
    :raises CheckpointError: what is kept cannot be read.
    """
    kept = _kept(store, job.uid)
    if not kept:
        return
    last = kept[0]
    msg = f"the state is empty, although checkpoint {last.checkpoint_id} of {last.created_at} is kept"
    remedy = (
        f"{way_back(job.namespace, job.name)}\nor start from source.startup all the same:\n{commands.create_again(job)}"
    )
    raise CheckpointMissing(msg, remedy=remedy)


def signs_of_edit(document: CheckpointDocument, store: RetainedStore) -> str:
    """What shows that somebody changed the document, in words; empty where nothing does.

    Called by recovery. An edit is honoured, so it must not be made by mistake unseen: an older document that was put
    back is noticed by a later checkpoint that is kept; other offsets, where this very document is kept, as the last
    one of each orderly stop is. Its time tells it from one that a later attempt wrote under the same number.
    """
    try:
        kept = _kept(store, document.job_uid)
    except CheckpointError as error:
        LOG.warning("whether the state was edited is not known: %s", error.message)
        return ""
    number = document.checkpoint_id
    if kept and kept[0].checkpoint_id > number:
        last = kept[0]
        return (
            f"the state is at checkpoint {number}, although {last.checkpoint_id} of {last.created_at} is kept: it was"
            " put back, and what was read in between is read and written again"
        )
    for one in kept:
        if (one.checkpoint_id, one.created_at) == (number, document.created_at):
            return _moved(document, one)
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
    more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
    return (
        f"offsets of checkpoint {document.checkpoint_id} were edited, the job goes on from there:"
        f" {', '.join(moved[:_SHOWN])}{more}"
    )


def _kept(store: RetainedStore, job_uid: str) -> list[RetainedCheckpoint]:
    """Newest first."""
    found = retained_checkpoints(store.read(), job_uid=job_uid)
    return [one for one in found if isinstance(one, RetainedCheckpoint)]
