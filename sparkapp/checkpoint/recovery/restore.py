"""Going back to an earlier checkpoint: a step of recovery, after the current checkpoint is settled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkapp.checkpoint.recovery.engine_texts import EngineTexts
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, as_retained, checkpoint_of_key, retained_key
from sparkapp.model.checkpoint.retained_codec import decode_retained, decode_snapshot
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointNotRetained, CheckpointUnusable, RestoreRefused
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition, named

_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """Effect of a restore on the records.

    :param again: ranges that were read and written, and will be read and written again.
    :param left_out: ranges that are not read again, because the checkpoint is older than an earlier restore. They were
        read after the current offsets before that restore.
    :param from_beginning: partitions that the checkpoint does not know: read from their beginning.
    """

    again: tuple[KafkaPartitionSplit, ...]
    left_out: tuple[KafkaPartitionSplit, ...]
    from_beginning: tuple[TopicPartition, ...]

    @property
    def records(self) -> int:
        """Upper bound of the repeated records, without partitions that are read from their beginning."""
        return sum(split.size for split in self.again)

    def describe(self) -> str:
        text = f"{self.records} record(s) of {len(self.again)} partition(s) are read and written again"
        if self.from_beginning:
            text += f", all of {named(list(self.from_beginning))} too, for the checkpoint does not know them"
        if self.left_out:
            size = sum(split.size for split in self.left_out)
            text += f"; {size} record(s), written before an earlier restore, are not written again"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What recovery went back to, or what a first start began at.

    :param snapshot: whose checkpoint it is; empty for a retained checkpoint.
    :param first_start: the job had no offsets of its own, so nothing is known of what was written before.
    """

    checkpoint: RetainedCheckpoint
    rewind: Rewind
    snapshot: str = ""
    first_start: bool = False

    def describe(self) -> str:
        checkpoint = self.checkpoint
        which = f"checkpoint {checkpoint.checkpoint_id} of {checkpoint.created_at}"
        if self.snapshot:
            which += f", from snapshot {self.snapshot} of the job with UID {checkpoint.job_uid}"
        if self.first_start:
            size = len(checkpoint.offsets)
            return (
                f"begins at {which}: {size} partition(s); what another job has written after that checkpoint is written"
                " again"
            )
        return f"went back to {which}: {self.rewind.describe()}"


def rewind_between(current: CheckpointDocument, target: RetainedCheckpoint) -> Rewind:
    """What goes back, partition by partition. Pure; partitions that are no longer subscribed count as well."""
    now = current.offsets
    both = sorted(now.keys() & target.offsets.keys())
    return Rewind(
        again=tuple(
            KafkaPartitionSplit(partition, target.offsets[partition], now[partition])
            for partition in both
            if target.offsets[partition] < now[partition]
        ),
        left_out=tuple(
            KafkaPartitionSplit(partition, now[partition], target.offsets[partition])
            for partition in both
            if now[partition] < target.offsets[partition]
        ),
        from_beginning=tuple(sorted(now.keys() - target.offsets.keys())),
    )


def go_back(
    document: CheckpointDocument,
    restore: Restore,
    *,
    store: RetainedStore,
    engine: EngineTexts,
    snapshot: RetainedCheckpoint | None = None,
    after: int = 0,
    recorded: CheckpointDocument | None = None,
) -> tuple[CheckpointDocument, Restored]:
    """The document with the earlier checkpoint's offsets and stops; the caller writes it.

    The current checkpoint can always be named, retained or not: by this a person accepts a state that was restored by
    hand. The restore is a checkpoint of its own with the next number. So no number ever has two sets of offsets,
    neither among retained checkpoints nor in the marks on the group's offsets.

    :param document: of the current checkpoint, with nothing left to settle.
    :param engine: makes the engine's text forget what belonged to the records after the earlier checkpoint, or name the
        state that was retained with it.
    :param snapshot: the checkpoint of ``restore.snapshot``, if that is named.
    :param after: the highest number that the job has given, where the document may be older.
    :param recorded: the current checkpoint as it was written, where subtasks have committed more since (ADR 56).
    :raises CheckpointNotRetained: that checkpoint is not retained. :raises CheckpointUnusable: it cannot be read.
    :raises RestoreRefused: operators keep state, and that of the checkpoint is not retained.
    """
    target = snapshot
    if target is None:
        target = _retained(document, restore.checkpoint, store=store, recorded=recorded)
    refuse_without_state(document, target)
    number = max(document.checkpoint_id, after) + 1
    rewound = _with_state(document, target, number=number, engine=engine, recorded=recorded or document)
    rewind = rewind_between(document, target)
    return replace(rewound, redeploy_nonce=restore.nonce), Restored(
        checkpoint=target, rewind=rewind, snapshot=restore.snapshot
    )


def begin_at(
    document: CheckpointDocument,
    name: str,
    snapshot: RetainedCheckpoint,
    *,
    engine: EngineTexts,
    recorded: CheckpointDocument,
) -> tuple[CheckpointDocument, Restored]:
    """The document of a first start at the snapshot's offsets and stops; the caller writes it.

    The write makes it a job with a checkpoint, so the next attempt resumes there and does not begin again.

    :param document: the claim of a first start. :param name: of the snapshot.
    :param engine: takes over the state of the job that wrote the snapshot.
    :param recorded: the document as its store has it. A stateless start has left its state behind in ``document``.
    :raises CheckpointUnusable: that state is not on the job's volume.
    """
    begun = _with_state(document, snapshot, number=document.checkpoint_id + 1, engine=engine, recorded=recorded)
    rewind = rewind_between(document, snapshot)
    return begun, Restored(checkpoint=snapshot, rewind=rewind, snapshot=name, first_start=True)


def snapshot_of(job: Job, name: str) -> RetainedCheckpoint:
    """The checkpoint of a snapshot, which the operator has put into the description of the attempt.

    :raises CheckpointUnusable: it cannot be read, or the description has none.
    """
    if name not in job.snapshots:
        msg = f"the description of the attempt has no checkpoint of KafkaSparkSnapshot {name}"
        raise CheckpointUnusable(msg, remedy=_REMEDY_NO_SNAPSHOT)
    return decode_snapshot(job.snapshots[name])


def _retained(
    document: CheckpointDocument, checkpoint_id: int, *, store: RetainedStore, recorded: CheckpointDocument | None
) -> RetainedCheckpoint:
    try:
        return find_retained(store.read(), checkpoint_id, job_uid=document.job_uid)
    except CheckpointNotRetained:
        if checkpoint_id != document.checkpoint_id:
            raise
        return as_retained(recorded or document)


def _with_state(
    document: CheckpointDocument,
    target: RetainedCheckpoint,
    *,
    number: int,
    engine: EngineTexts,
    recorded: CheckpointDocument,
) -> CheckpointDocument:
    """The document at the target's offsets, with the target's state.

    :param number: of the new checkpoint, at least. State of another job has a version up to that job's number.
    """
    if not target.engine:
        text = engine.rewound(document.engine)
    elif target.job_uid == document.job_uid and document.checkpoint_id:
        text = engine.gone_back(
            document.engine, target, number=number, attempt=document.attempt, recorded=recorded.engine
        )
    else:
        number = max(number, target.checkpoint_id + 1)
        text = engine.adopted(
            document.engine, target, number=number, attempt=document.attempt, recorded=recorded.engine
        )
    return replace(_at(document, target, number=number, engine=text), engine_has_state=bool(target.engine))


def _at(document: CheckpointDocument, target: RetainedCheckpoint, *, number: int, engine: str) -> CheckpointDocument:
    """The document at the target's offsets. Topics of another cluster have other ids."""
    return replace(
        document,
        checkpoint_id=number,
        splits=tuple(
            KafkaPartitionSplit(partition, offset, offset) for partition, offset in sorted(target.offsets.items())
        ),
        topic_ids=target.topic_ids if target.cluster_id == document.cluster_id else {},
        stops=target.stops,
        stopping=target.stopping,
        engine=engine,
        finished=False,
        drained=False,
    )


def refuse_without_state(document: CheckpointDocument, target: RetainedCheckpoint) -> None:
    """:raises RestoreRefused: operators keep state, and that of the checkpoint is not retained."""
    if document.engine_has_state and not target.engine:
        msg = (
            f"the job cannot go back to checkpoint {target.checkpoint_id}: its operators keep state, and the state of"
            " that checkpoint is not retained"
        )
        raise RestoreRefused(msg, remedy=_REMEDY_STATE)


def find_retained(texts: dict[str, str], checkpoint_id: int, *, job_uid: str) -> RetainedCheckpoint:
    """A retained checkpoint.

    :param texts: by name, as a retained store reads them.
    :raises CheckpointNotRetained: it is not retained; the message lists the retained checkpoints with their times.
    :raises CheckpointUnusable: it cannot be read.
    """
    key = retained_key(checkpoint_id)
    if key in texts:
        return decode_retained(texts[key], key=key, job_uid=job_uid)
    kept = [
        checkpoint
        for checkpoint in retained_checkpoints(texts, job_uid=job_uid)
        if isinstance(checkpoint, RetainedCheckpoint)
    ]
    shown = ", ".join(f"{checkpoint.checkpoint_id} ({checkpoint.created_at})" for checkpoint in kept[:_SHOWN])
    more = f" and {len(kept) - _SHOWN} older" if len(kept) > _SHOWN else ""
    retained = f"retained are {shown}{more}" if kept else "none is retained"
    msg = f"checkpoint {checkpoint_id} is not retained; {retained}"
    if kept:
        raise CheckpointNotRetained(msg)
    raise CheckpointNotRetained(
        msg, remedy="remove spec.restore.checkpoint: the job then resumes from its last checkpoint"
    )


def retained_checkpoints(texts: dict[str, str], *, job_uid: str) -> list[RetainedCheckpoint | CheckpointUnusable]:
    """All retained checkpoints, newest first; an unusable checkpoint is represented by its error."""
    found: list[RetainedCheckpoint | CheckpointUnusable] = []
    for key in sorted(texts, key=lambda key: checkpoint_of_key(key) or 0, reverse=True):
        try:
            found.append(decode_retained(texts[key], key=key, job_uid=job_uid))
        except CheckpointUnusable as error:
            found.append(error)
    return found


_REMEDY_NO_SNAPSHOT = (
    "run the job in a cluster whose operator is of this release: it adds the checkpoint. On a developer's machine use"
    " source.startup.mode SpecificOffsets with the offsets of the snapshot's ConfigMap"
)
_REMEDY_STATE = (
    "set spec.restore.checkpoint to a checkpoint that `python3 -m sparkapp checkpoint list` shows with state, or remove"
    " it to resume from the last checkpoint. To read earlier records with empty state,"
    " create a job with another name and source.startup.mode SpecificOffsets (`python3 -m sparkapp checkpoint show` has"
    " the offsets)"
)
