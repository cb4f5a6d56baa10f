"""Going back to an earlier checkpoint: a step of recovery, after everything of the current one is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import CheckpointNotRetained, CheckpointUnusable, RestoreRefused
from sparkapp.model.partition import TopicPartition, named
from sparkapp.model.retained import RetainedCheckpoint, checkpoint_of_key, retained, retained_key
from sparkapp.model.retained_codec import decode_retained
from sparkapp.model.retention import Restore
from sparkapp.model.split import KafkaPartitionSplit

_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """What going back from one checkpoint to another means for the records.

    :param again: ranges that were read and written, and will be once more.
    :param left_out: ranges that were read after the current offsets in a former course of the job, and are not now:
        the checkpoint is of before an earlier restore.
    :param begun_anew: partitions that the checkpoint does not know: read from their beginning.
    """

    again: tuple[KafkaPartitionSplit, ...]
    left_out: tuple[KafkaPartitionSplit, ...]
    begun_anew: tuple[TopicPartition, ...]

    @property
    def records(self) -> int:
        """Upper bound of the records that are read and written again, without those of partitions begun anew."""
        return sum(split.size for split in self.again)

    def describe(self) -> str:
        text = f"{self.records} record(s) of {len(self.again)} partition(s) are read and written again"
        if self.begun_anew:
            text += f", all of {named(list(self.begun_anew))} too, for the checkpoint does not know them"
        if self.left_out:
            size = sum(split.size for split in self.left_out)
            text += f"; {size} record(s), written before an earlier restore, are not written again"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What recovery went back to."""

    checkpoint: RetainedCheckpoint
    rewind: Rewind

    def describe(self) -> str:
        one = self.checkpoint
        return f"went back to checkpoint {one.checkpoint_id} of {one.created_at}: {self.rewind.describe()}"


def rewind_between(current: CheckpointDocument, target: RetainedCheckpoint) -> Rewind:
    """What goes back, partition by partition. Pure; partitions that are no longer subscribed count as well."""
    now = current.offsets
    both = sorted(now.keys() & target.offsets.keys())
    return Rewind(
        again=tuple(
            KafkaPartitionSplit(one, target.offsets[one], now[one]) for one in both if target.offsets[one] < now[one]
        ),
        left_out=tuple(
            KafkaPartitionSplit(one, now[one], target.offsets[one]) for one in both if now[one] < target.offsets[one]
        ),
        begun_anew=tuple(sorted(now.keys() - target.offsets.keys())),
    )


def restore_due(document: CheckpointDocument, restore: Restore) -> bool:
    """Whether the nonce has changed since the document last served one; a lower one asks for nothing."""
    return restore.nonce > document.redeploy_nonce


def go_back(
    document: CheckpointDocument,
    restore: Restore,
    *,
    store: RetainedStore,
    engine: Callable[[str], str],
    after: int = 0,
) -> tuple[CheckpointDocument, Restored]:
    """The document with the earlier checkpoint's offsets and stops; what is written is the caller's one write.

    The current checkpoint can always be named, kept or not: a person accepts by it a state that was put back. The
    number goes on: the restore is a checkpoint of its own, so that no number ever stands for two sets of offsets,
    neither among those that are kept nor in the marks on the group's offsets.

    :param document: of the current checkpoint, with nothing left to settle.
    :param engine: makes the engine's text forget what belonged to the records after the earlier checkpoint.
    :param after: the highest number that the job has given, where the document may be older than that.
    :raises CheckpointNotRetained: that checkpoint is not kept. :raises CheckpointUnusable: it cannot be read.
    :raises RestoreRefused: operators keep state, which does not go back.
    """
    refuse_state(document, restore.checkpoint)
    try:
        target = find_retained(store, restore.checkpoint, job_uid=document.job_uid)
    except CheckpointNotRetained:
        if restore.checkpoint != document.checkpoint_id:
            raise
        target = retained(document)
    rewound = replace(
        document,
        checkpoint_id=max(document.checkpoint_id, after) + 1,
        splits=tuple(KafkaPartitionSplit(one, offset, offset) for one, offset in sorted(target.offsets.items())),
        topic_ids=target.topic_ids if target.cluster_id == document.cluster_id else {},
        stops=target.stops,
        stopping=target.stopping,
        engine=engine(document.engine),
        finished=False,
        drained=False,
        redeploy_nonce=restore.nonce,
    )
    return rewound, Restored(checkpoint=target, rewind=rewind_between(document, target))


def refuse_state(document: CheckpointDocument, checkpoint_id: int) -> None:
    """:raises RestoreRefused: operators keep state, which does not go back."""
    if document.engine_has_state:
        msg = (
            f"the job cannot go back to checkpoint {checkpoint_id}: its operators keep state, of which only the newest"
            " version is kept"
        )
        raise RestoreRefused(msg, remedy=_REMEDY_STATE)


def find_retained(store: RetainedStore, checkpoint_id: int, *, job_uid: str) -> RetainedCheckpoint:
    """One of the checkpoints that are kept.

    :raises CheckpointNotRetained: it is not among them; they are listed with their times.
    :raises CheckpointUnusable: it is, and cannot be read.
    """
    texts = store.read()
    key = retained_key(checkpoint_id)
    if key in texts:
        return decode_retained(texts[key], key=key, job_uid=job_uid)
    kept = [one for one in retained_checkpoints(texts, job_uid=job_uid) if isinstance(one, RetainedCheckpoint)]
    shown = ", ".join(f"{one.checkpoint_id} ({one.created_at})" for one in kept[:_SHOWN])
    more = f" and {len(kept) - _SHOWN} older one(s)" if len(kept) > _SHOWN else ""
    msg = f"checkpoint {checkpoint_id} is not kept; " + (f"kept are {shown}{more}" if kept else "none is kept")
    if kept:
        raise CheckpointNotRetained(msg)
    raise CheckpointNotRetained(msg, remedy="remove spec.restoreFrom: the job goes on where it is")


def retained_checkpoints(texts: dict[str, str], *, job_uid: str) -> list[RetainedCheckpoint | CheckpointUnusable]:
    """Everything that is kept, newest first; what cannot be used is there as its error."""
    found: list[RetainedCheckpoint | CheckpointUnusable] = []
    for key in sorted(texts, key=lambda one: checkpoint_of_key(one) or 0, reverse=True):
        try:
            found.append(decode_retained(texts[key], key=key, job_uid=job_uid))
        except CheckpointUnusable as error:
            found.append(error)
    return found


_REMEDY_STATE = (
    "remove spec.restoreFrom to go on where the job is; to read from an earlier point with fresh state, create a job"
    " with another name and source.startup.mode SPECIFIC_OFFSETS (`python -m sparkapp checkpoint show` has the offsets)"
)
