"""The checkpoint document: small by design. After a crash it decides what is committed and where reading resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.naming import (
    NO_SLOTS,
    SlotBounds,
    is_first_start,
    is_of_prefix,
    offsets_id,
    subtask_slot_of,
)
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.encoding.json_parts import MAX_INT, stored
from sparkapp.model.encoding.strict_json import by_topic, offsets_of, topics_of
from sparkapp.model.errors import CheckpointCorrupt
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import FIRST_HINT, MAX_COUNTED, TransactionalIdHint, check_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals since the job's first start; they survive restarts because the document holds them."""

    records_in: int = stored(default=0, is_needed=True)
    records_out: int = stored(default=0, is_needed=True)
    records_skipped: int = stored(default=0, is_written=True)
    records_dead_lettered: int = stored(default=0, is_written=True)
    transactions_committed: int = stored(default=0, is_needed=True)
    transactions_aborted: int = stored(default=0, is_needed=True)

    def plus(
        self,
        *,
        records_in: int = 0,
        records_out: int = 0,
        skipped: int = 0,
        dead_lettered: int = 0,
        committed: int = 0,
        aborted: int = 0,
    ) -> Counters:
        """The totals after another checkpoint or recovery; the counts of a lost transaction are negative.

        Skipped records are in no transaction: where a lost range is read again, they count again. Edited totals may be
        lower than a lost transaction's counts. So each total is limited to values that the next attempt can read.
        """
        return Counters(
            records_in=_total(self.records_in + records_in),
            records_out=_total(self.records_out + records_out),
            records_skipped=_total(self.records_skipped + skipped),
            records_dead_lettered=_total(self.records_dead_lettered + dead_lettered),
            transactions_committed=_total(self.transactions_committed + committed),
            transactions_aborted=_total(self.transactions_aborted + aborted),
        )


def _total(value: int) -> int:
    return min(max(value, 0), (1 << 63) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPart:
    """The part `local` of a document of the local pace; the offsets of such a document are lower bounds of the group's.

    :param era: the attempt that was granted last. Its marks alone stand for commits that the document may not know.
    :param placed: partitions whose offset the group has from this era.
    :param ended: whether the era ended in order, so that the offsets are exact. A claim keeps it, and clears
        ``drained``, which is about the document's attempt.
    :param forgot_at: checkpoint at which the era left out partitions last; 0 if it never did. An older mark on a
        partition that the document does not know may be of one of those, or of its topic's successor.
    """

    era: int = stored(low=1, high=MAX_INT)
    placed: frozenset[TopicPartition] = stored(default=frozenset(), is_hidden=True)
    ended: bool = stored(default=False, is_needed=True)
    forgot_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatelessStart:
    """The part `stateless` of a document: the last start that left a checkpoint behind (ADR 97).

    :param asked_by: number of the first attempt that was to begin so. Each request has another number, and is served
        once.
    :param checkpoint_id: number of the document that has no offsets for it; 0 where no such document was needed.
    """

    asked_by: int = stored(low=1, high=MAX_INT)
    checkpoint_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDocument:
    """A completed checkpoint; with ``checkpoint_id`` 0 the claim of a first start.

    :param job_uid: UID of the resource that owns the state; another UID is refused.
    :param attempt: number of the attempt that wrote it, from 1.
    :param checkpoint_id: number of the last completed checkpoint; 0 before the first.
    :param parallelism: subtasks of the attempt that wrote it.
    :param prefix: current transactional id prefix.
    :param previous_prefixes: prefixes of previous attempts that may still have lingering transactions.
    :param hint: transactional id hint; the first hint if unused, or if the delivery guarantee is not ExactlyOnce.
    :param slots: bounds of the ids by subtask and slot that attempts may have used. Empty if unused, or if the delivery
        guarantee is not ExactlyOnce.
    :param transactional: True where an attempt before its first checkpoint may have begun transactions that neither
        hint nor slots cover.
    :param splits: every known partition with the range of this checkpoint; the next checkpoint starts at ``stop``.
    :param sink_topics: that transactions may have been written to whose ends are not proven; empty behind an orderly
        stop. The spec may name others by now.
    :param aligned: True where each subtask read whole partitions and wrote exactly their records: committables
        have ranges. False with a shuffle, or where a partition was cut among subtasks.
    :param committables: the transactions that this document makes final, committed or not yet.
    :param evidence_group: the group whose offsets are in the committables' transactions; empty without such offsets.
        They are the only evidence of a transaction that its coordinator no longer knows.
    :param engine: opaque text of the engine (Spark's batch metadata), restored with the checkpoint.
    :param engine_has_state: True where operators keep state, which changes with each checkpoint.
    :param drained: True where the driver stopped at this checkpoint on request and left no transaction open.
    :param stops: end offset of each partition of a bounded job, as far as it is known; empty for an unbounded job. A
        stop without a split is a deleted topic's, and counts for nothing.
    :param stopping: :attr:`Stopping.fingerprint` of the setting behind the stops; another setting fixes new stops.
    :param finished: True where a bounded job has completed all its records.
    :param cluster_id: id of the Kafka cluster of offsets and group; empty where it is not known.
    :param sink_cluster_id: id of the Kafka cluster of transactions; empty where it is that of the offsets.
    :param topic_ids: the first 60 bits of each topic's id, as Kafka prints them; topics without a known id are absent.
    :param redeploy_nonce: the last ``spec.restore.nonce`` that was served: each higher nonce restores once.
    :param local: set where subtasks committed by themselves (ADR 56): ``evidence_group`` decides then, and the offsets
        are lower bounds. None where the document decides.
    :param stateless: the last stateless start; None where there was none.
    """

    job_uid: str
    attempt: int = stored(low=1, high=MAX_INT)
    checkpoint_id: int = stored(high=MAX_COUNTED)
    created_at: str
    parallelism: int = stored(low=1, high=MAX_INT)
    prefix: str = stored(key="transactionalIdPrefix")
    previous_prefixes: tuple[str, ...] = stored(key="formerPrefixes", default=(), is_needed=True)
    hint: TransactionalIdHint = stored(default=FIRST_HINT, is_needed=True)
    slots: SlotBounds = stored(key="slotIds", default=NO_SLOTS)
    transactional: bool = False
    splits: tuple[KafkaPartitionSplit, ...] = stored(default=(), is_hidden=True)
    sink_topics: frozenset[str] = stored(default=frozenset(), read=topics_of, write=sorted)
    aligned: bool = stored(default=True, is_needed=True)
    committables: tuple[KafkaCommittable, ...] = stored(default=(), is_needed=True)
    evidence_group: str = stored(key="witnessGroup", default="", is_needed=True)
    engine: str = stored(default="", is_needed=True)
    engine_has_state: bool = stored(default=False, is_needed=True)
    drained: bool = stored(default=False, is_needed=True)
    stopping: str = stored(key="bounded.stopping", default="")
    finished: bool = stored(key="bounded.finished", default=False)
    stops: Mapping[TopicPartition, int] = stored(
        key="bounded.stops", default_factory=dict, read=offsets_of, write=by_topic
    )
    cluster_id: str = ""
    sink_cluster_id: str = ""
    topic_ids: Mapping[str, str] = stored(default_factory=dict, is_hidden=True)
    redeploy_nonce: int = 0
    counters: Counters = stored(default_factory=Counters, is_needed=True)
    local: LocalPart | None = None
    stateless: StatelessStart | None = None

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All prefixes whose transactions a restart settles or aborts, the current prefix first."""
        return (self.prefix, *self.previous_prefixes)

    @property
    def may_have_transactions(self) -> bool:
        """False where no transaction of an attempt can be open. An attempt with transactions says so before the first.

        An attempt without transactions takes it back, once recovery has settled those of earlier attempts.
        """
        return self.transactional or not is_first_start(self.hint, self.slots)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Next offset to read, by partition."""
        return {split.partition: split.stop for split in self.splits}

    def require_consistent(self) -> None:
        """Checks what one field says about another; called when a text has been read.

        :raises CheckpointCorrupt: a contradiction. :raises InvalidArgument: a prefix is none.
        """
        if self.aligned:
            _check_ranges(self.committables)
        _check_ids(self)
        if self.committables and not self.checkpoint_id:
            msg = "it has transactions to commit before the first checkpoint"
            raise CheckpointCorrupt(msg)
        if (self.stops or self.finished) and not self.stopping:
            msg = "bounded has stops, or is finished, without stopping"
            raise CheckpointCorrupt(msg)
        if self.local is not None:
            _check_local(self, self.local)
        if self.stateless is not None and self.stateless.checkpoint_id > self.checkpoint_id:
            msg = f"stateless.checkpointId {self.stateless.checkpoint_id} is after checkpoint {self.checkpoint_id}"
            raise CheckpointCorrupt(msg)


def _check_ranges(committables: Sequence[KafkaCommittable]) -> None:
    """Without a shuffle, a subtask with records in its transaction has a split with records."""
    for committable in committables:
        if (committable.records or committable.dead_letters) and not committable.ranges:
            msg = (
                f"the committable {committable.transactional_id} of subtask {committable.subtask} holds records, but no"
                " split of that subtask does"
            )
            raise CheckpointCorrupt(msg)


def _check_ids(document: CheckpointDocument) -> None:
    """A document must not make a driver commit what belongs to another job."""
    if len({committable.transactional_id for committable in document.committables}) != len(document.committables):
        msg = "two committables name the same transactional id"
        raise CheckpointCorrupt(msg)
    for prefix in document.prefixes:
        check_prefix(prefix)
    for committable in document.committables:
        its_prefix = next(
            (prefix for prefix in document.prefixes if is_of_prefix(committable.transactional_id, prefix)), None
        )
        if its_prefix is None or committable.transactional_id == offsets_id(
            its_prefix
        ):  # offsets_id is the driver's, not a subtask's
            prefixes = ", ".join(document.prefixes)
            msg = f"the committable {committable.transactional_id} is of none of the prefixes {prefixes}"
            raise CheckpointCorrupt(msg)
        if committable.attempt > document.attempt:
            msg = (
                f"attempt {committable.attempt} wrote the committable {committable.transactional_id}, after attempt"
                f" {document.attempt}"
            )
            raise CheckpointCorrupt(msg)
        pair = subtask_slot_of(committable.transactional_id, its_prefix)
        if pair is not None and (pair.subtask != committable.subtask or pair not in document.slots):
            msg = f"subtask {committable.subtask} has no id {committable.transactional_id}, as far as slotIds reach"
            raise CheckpointCorrupt(msg)


def _check_local(document: CheckpointDocument, local: LocalPart) -> None:
    """A document of the local pace names the ids and the group that decide, and nothing to commit."""
    if document.slots == NO_SLOTS or not document.evidence_group or document.committables or not document.aligned:
        msg = "it is of the local pace without slotIds or witnessGroup, or with transactions to commit"
        raise CheckpointCorrupt(msg)
    if local.era > document.attempt:
        msg = f"local.era {local.era} is after attempt {document.attempt}"
        raise CheckpointCorrupt(msg)
    if local.forgot_at > document.checkpoint_id:
        msg = f"local.forgotAt {local.forgot_at} is after checkpoint {document.checkpoint_id}"
        raise CheckpointCorrupt(msg)
