"""A checkpoint that all subtasks have pre-committed, and what follows from it. Values and pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint


@dataclass(frozen=True, slots=True, kw_only=True)
class PreCommitted:
    """One checkpoint whose subtasks have all pre-committed.

    :param splits: every known partition with this checkpoint's range.
    :param stops: stopping offset of each of these partitions of a bounded job, as far as it is known. The split of a
        partition whose stop was found in this checkpoint ends there.
    :param topic_ids: ids of the splits' topics, as far as they are known.
    :param aligned: whether each subtask wrote exactly what it read, in whole partitions.
    :param engine: the engine's part of the document, which it gets back on a restart.
    :param engine_has_state: whether the engine keeps operator state outside the document.
    """

    checkpoint_id: int
    splits: tuple[KafkaPartitionSplit, ...]
    aligned: bool
    committables: tuple[KafkaCommittable, ...]
    records_out: int
    stops: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    records_skipped: int = 0
    records_dead_lettered: int = 0
    engine: str = ""
    engine_has_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A checkpoint that is final and visible."""

    document: CheckpointDocument
    bytes: int
    write_millis: int
    commit_millis: int


def document_after(
    last: CheckpointDocument,
    checkpoint: PreCommitted,
    job: Job,
    *,
    hint: TransactionalIdHint,
    slots: SlotBounds,
    mode: OffsetCommitMode,
    now: str,
    written: Collection[str] = (),
) -> CheckpointDocument:
    """The document that makes the checkpoint final.

    :param last: the document of the previous checkpoint.
    :param hint: and ``slots``: transactional ids that this attempt uses.
    :param now: RFC 3339 time. :param written: topics that its transactions have written to.
    """
    has_evidence = mode is OffsetCommitMode.IN_TRANSACTION and checkpoint.aligned
    return CheckpointDocument(
        job_uid=job.uid,
        attempt=job.attempt,
        checkpoint_id=checkpoint.checkpoint_id,
        created_at=now,
        parallelism=job.spec.parallelism,
        prefix=job.spec.sink.transactional_id_prefix,
        hint=hint,
        slots=slots,
        splits=checkpoint.splits,
        sink_topics=last.sink_topics.union(written),
        aligned=checkpoint.aligned,
        committables=tuple(replace(committable, attempt=job.attempt) for committable in checkpoint.committables),
        evidence_group=job.spec.source.group_id if has_evidence else "",
        engine=checkpoint.engine,
        engine_has_state=checkpoint.engine_has_state,
        stops=checkpoint.stops,
        stopping=last.stopping,
        cluster_id=last.cluster_id,
        sink_cluster_id=last.sink_cluster_id,
        topic_ids=checkpoint.topic_ids,
        redeploy_nonce=last.redeploy_nonce,
        stateless=last.stateless,
        counters=last.counters.plus(
            records_in=sum(split.size for split in checkpoint.splits),
            records_out=checkpoint.records_out,
            skipped=checkpoint.records_skipped,
            dead_lettered=checkpoint.records_dead_lettered,
            committed=len(checkpoint.committables),
        ),
    )


def offsets_to_commit(checkpoint: PreCommitted, mode: OffsetCommitMode) -> dict[TopicPartition, int]:
    """The offsets that a completed checkpoint commits to the group outside its transactions.

    Under IN_TRANSACTION these are ranges of subtasks that produced nothing (a filter kept no record). They have no
    transaction, and the group's lag should move all the same. Others are partitions that end before the offset in
    their transaction: the writer did not know the record that ends the partition.
    """
    read = {split.partition: split.stop for split in checkpoint.splits if split.size}
    if mode is OffsetCommitMode.ON_CHECKPOINTS or (mode is OffsetCommitMode.IN_TRANSACTION and not checkpoint.aligned):
        return read
    if mode is OffsetCommitMode.IN_TRANSACTION:
        inside = {
            split.partition: split.stop for committable in checkpoint.committables for split in committable.ranges
        }
        return {partition: offset for partition, offset in read.items() if inside.get(partition) != offset}
    return {}
