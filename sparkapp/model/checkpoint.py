"""The checkpoint document: small by design, and what decides everything after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.model.transaction_naming import NO_SLOTS, SlotBounds
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals since the job's first start; they survive restarts because the document carries them."""

    records_in: int = 0
    records_out: int = 0
    records_skipped: int = 0
    records_dead_lettered: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0

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
        """The totals after one more checkpoint or recovery; a lost transaction takes its share back.

        Skipped records are in no transaction: where a lost range is read again, they count again. Totals that somebody
        has edited may not have that share: no total leaves what a document can hold, for the next attempt reads it.
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
class CheckpointDocument:
    """One completed checkpoint (or, with ``checkpoint_id`` 0, the claim of a first start).

    :param job_uid: UID of the resource that owns the state; another one is refused.
    :param attempt: the life of the driver that wrote it, from 1.
    :param checkpoint_id: number of the last completed checkpoint; 0 before the first.
    :param parallelism: subtasks of the attempt that wrote it.
    :param prefix: transactional id prefix in use.
    :param former_prefixes: prefixes of earlier lives whose transactions a restart still has to look for.
    :param hint: transactional id hint; the first hint where the semantic is not EXACTLY_ONCE or no life has used it.
    :param slots: how far the ids by subtask and slot reach that a life can have used; none where no life had those,
        and where the semantic is not EXACTLY_ONCE.
    :param transactional: True where a life may have begun transactions of which neither hint nor slots tell: before its
        first checkpoint.
    :param splits: every known partition with the range of this checkpoint; ``stop`` is where the next one starts.
    :param aligned: True where each subtask wrote exactly what it read, whole partitions of it (no shuffle, no partition
        cut among subtasks), so that committables have ranges.
    :param committables: the transactions that this document makes final; they may or may not be committed yet.
    :param witness_group: the group whose offsets are inside the committables' transactions, or empty; only they prove
        what became of a transaction that the coordinator no longer knows.
    :param engine: opaque text of the engine (Spark's batch metadata), restored with the checkpoint.
    :param engine_has_state: True where operators keep state that moved on with this checkpoint.
    :param drained: True where the driver stopped at this checkpoint on request and left nothing open.
    :param stops: where each partition of a bounded job ends, as far as that is known; empty for one without an end.
    :param stopping: the choice that the stops came from (:attr:`Stopping.fingerprint`): another one fixes new stops.
    :param finished: True where a bounded job has completed all that it is to read.
    :param cluster_id: Kafka's id of the cluster that offsets and transactions are of; empty where it is not known.
    :param topic_ids: the first 60 bits of each topic's id, as Kafka prints them; topics without a known one are absent.
    :param redeploy_nonce: the last ``spec.redeployNonce`` that was served: a restore happens once per change of it.
    """

    job_uid: str
    attempt: int
    checkpoint_id: int
    created_at: str
    parallelism: int
    prefix: str
    former_prefixes: tuple[str, ...] = ()
    hint: TransactionalIdHint = FIRST_HINT
    slots: SlotBounds = NO_SLOTS
    transactional: bool = False
    splits: tuple[KafkaPartitionSplit, ...] = ()
    aligned: bool = True
    committables: tuple[KafkaCommittable, ...] = ()
    witness_group: str = ""
    engine: str = ""
    engine_has_state: bool = False
    drained: bool = False
    stops: Mapping[TopicPartition, int] = field(default_factory=dict)
    stopping: str = ""
    finished: bool = False
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    redeploy_nonce: int = 0
    counters: Counters = field(default_factory=Counters)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All whose transactions a restart looks for; the job's own first."""
        return (self.prefix, *self.former_prefixes)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Where each known partition goes on."""
        return {split.partition: split.stop for split in self.splits}
