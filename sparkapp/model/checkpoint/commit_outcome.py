"""Answers of the coordinator to EndTxn(commit), and the evidence where they do not decide; the committer's truth table.

The table was observed on a real broker with a client of EndTxn v1 (ADR 25; cases P03, P04, P09, P10, P11, C01 to C07).
:func:`outcome_of` decides by evidence: the coordinator's description of the transaction, and the group's offsets, which
move with the transaction or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.partition import TopicPartition


class EndTxnAnswer(Enum):
    """Answers by Kafka's error names; OTHER_* are groups of errors with the same handling."""

    NONE = "NONE"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    LATER_TRANSACTION = "LATER_TRANSACTION"
    """Not an error of Kafka: no EndTxn was sent, because it would end another transaction of the same producer."""
    EARLIER_TRANSACTION = "EARLIER_TRANSACTION"
    """Likewise: its coordinator has only heard of an earlier transaction, and would answer by that."""
    OTHER_RETRIABLE = "OTHER_RETRIABLE"
    """Coordinator moving or loading, time-outs, lost connections."""
    OTHER_FATAL = "OTHER_FATAL"
    """Authorization errors and unknown answers: not proven. The attempt fails, and the next attempt asks again."""


class Verdict(Enum):
    """Next step for a committable."""

    COMMITTED = "committed"
    RETRY = "retry"
    ASK_EVIDENCE = "ask for evidence"
    FAIL = "fail"


VERDICTS: Mapping[EndTxnAnswer, Verdict] = {
    EndTxnAnswer.NONE: Verdict.COMMITTED,
    EndTxnAnswer.CONCURRENT_TRANSACTIONS: Verdict.RETRY,
    EndTxnAnswer.OTHER_RETRIABLE: Verdict.RETRY,
    # None of these answers proves a loss, because the commit may have come before.
    # State CompleteAbort or Empty. Brokers without KAFKA-20785 also give this answer for an expired transaction.
    EndTxnAnswer.INVALID_TXN_STATE: Verdict.ASK_EVIDENCE,
    # Timed out (the broker bumped the epoch), or a newer producer took the id over.
    EndTxnAnswer.PRODUCER_FENCED: Verdict.ASK_EVIDENCE,
    # The id expired after transactional.id.expiration.ms, perhaps long after its commit.
    EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING: Verdict.ASK_EVIDENCE,
    # The document was restored by hand: its id is in use again, for a transaction of no checkpoint (A18, T15).
    EndTxnAnswer.LATER_TRANSACTION: Verdict.ASK_EVIDENCE,
    # No other broker has replaced the coordinator in time, or its log has lost its end.
    EndTxnAnswer.EARLIER_TRANSACTION: Verdict.ASK_EVIDENCE,
    EndTxnAnswer.OTHER_FATAL: Verdict.FAIL,
}


class CommitOutcome(Enum):
    """Outcome of a committable by its evidence."""

    COMMITTED = "committed"
    LOST = "lost"
    """Proven: nothing of it is or will be visible."""
    UNCERTAIN = "uncertain"
    """Its coordinator has no trace of it, and no offset proves a commit or a loss."""
    PENDING = "pending"
    """Its coordinator has not ended the transaction yet; ask again later. No outcome of a completed settlement."""


ENDINGS: Mapping[str, CommitOutcome] = {
    "PrepareCommit": CommitOutcome.COMMITTED,
    "CompleteCommit": CommitOutcome.COMMITTED,
    "PrepareAbort": CommitOutcome.LOST,
    "CompleteAbort": CommitOutcome.LOST,
}
"""End of a transaction by its coordinator's state; in any other state it has not ended."""


_STRONGEST_FIRST = (CommitOutcome.COMMITTED, CommitOutcome.LOST, CommitOutcome.PENDING, CommitOutcome.UNCERTAIN)


class Described(Protocol):
    """A coordinator's description of an id: ``clients.transactions.states.TransactionDescription``."""

    @property
    def state(self) -> str:
        """By the coordinator's name."""
        ...

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def start_time_ms(self) -> int: ...


class GroupOffset(NamedTuple):
    """A committed offset of the group: the next record, and the text that its committer stored with it."""

    offset: int
    metadata: str = ""


class Mark(NamedTuple):
    """Attempt and checkpoint that committed an offset of the group, by the text stored with it."""

    attempt: int
    checkpoint_id: int


_NUMBER = re.compile(r"[0-9]{1,18}")
"""Of attempts and checkpoints. No document can hold a longer number."""


def offset_mark(job_uid: str, attempt: int, checkpoint_id: int) -> str:
    """The text that a job stores with each offset that it commits, inside and outside transactions.

    An offset alone proves nothing: another client may move the group. The group may also be ahead of the job's start:
    Earliest with an old group, or a recreated topic.
    """
    return f"{job_uid}/{attempt}/{checkpoint_id}"


def mark_of(metadata: str, job_uid: str) -> Mark | None:
    """:func:`offset_mark` read back; None where it is not this job's."""
    uid, *numbers = metadata.split("/")
    known = uid == job_uid and len(numbers) == 2 and all(map(_NUMBER.fullmatch, numbers))
    return Mark(int(numbers[0]), int(numbers[1])) if known else None


def outcome_of(
    committable: KafkaCommittable,
    described: Described | None,
    committed: Mapping[TopicPartition, GroupOffset],
    *,
    job_uid: str,
) -> CommitOutcome:
    """The outcome of a transaction by all its evidence. Pure; ADR 25 has the proof.

    The strongest evidence counts. A commit is the only cause of its evidence. No lost or late message can make a
    coordinator describe this transaction as committed, or put this checkpoint's mark on a group offset. A loss is
    proven by an absence, so any evidence of the commit outweighs it. Without evidence the outcome is unknown.

    :param described: the coordinator's description, asked before an open transaction of the id is aborted; None for an
        unknown id.
    :param committed: the group's stable offsets, read after every previous attempt was fenced; partitions without an
        offset are absent.
    :param job_uid: marks of other jobs prove nothing.
    """
    evidence = (
        _evidence_from_description(committable, described),
        _evidence_from_marks(committable, committed, job_uid),
    )
    return min(evidence, key=_STRONGEST_FIRST.index)


def is_of(committable: KafkaCommittable, described: Described) -> bool:
    """Whether a description is of the committable's transaction, and not of another of the same producer. Pure."""
    is_meant = described.start_time_ms == committable.start_time_ms or not committable.start_time_ms
    return _is_of_producer(committable, described) and is_meant


def ends_another(committable: KafkaCommittable, described: Described) -> bool:
    """Whether EndTxn by the committable's triple would end a different open transaction of the same producer. Pure.

    That is possible with a document that was restored by hand. A driver that has just written the document does not
    ask: none of its slots is in use again before the next document.
    """
    is_open = described.state == "Ongoing"
    return is_open and _is_of_producer(committable, described) and not is_of(committable, described)


def is_behind(committable: KafkaCommittable, described: Described) -> bool:
    """Whether a description is of an earlier transaction of the committable's producer id, or of none yet. Pure.

    A producer id gets a higher epoch with each initialisation. So the broker that gave the description has not heard of
    the committable's transaction. It does not coordinate the id any more, or its log has lost its end.
    """
    known = described.producer_epoch, max(described.start_time_ms, 0)
    return described.producer_id == committable.producer_id and known < (
        committable.producer_epoch,
        committable.start_time_ms,
    )


def _is_of_producer(committable: KafkaCommittable, described: Described) -> bool:
    return (described.producer_id, described.producer_epoch) == (committable.producer_id, committable.producer_epoch)


def _evidence_from_description(committable: KafkaCommittable, described: Described | None) -> CommitOutcome:
    """Producer id and start time identify the transaction. They survive its end, a broker's restart and the epoch bump
    of the time-out, until the id is initialised again.

    A later start under the same producer id and epoch is a later transaction of that producer, which begins only after
    a commit (``sink.producers``). The state alone proves nothing: an id may have been committed, taken over, and
    aborted since.
    """
    if described is None or not committable.start_time_ms or described.producer_id != committable.producer_id:
        return CommitOutcome.UNCERTAIN
    if described.start_time_ms == committable.start_time_ms:
        return ENDINGS.get(described.state, CommitOutcome.PENDING)
    is_later = described.start_time_ms > committable.start_time_ms
    is_its_producer = described.producer_epoch == committable.producer_epoch
    return CommitOutcome.COMMITTED if is_later and is_its_producer else CommitOutcome.UNCERTAIN


def _evidence_from_marks(
    committable: KafkaCommittable, committed: Mapping[TopicPartition, GroupOffset], job_uid: str
) -> CommitOutcome:
    """Offsets move with the transaction or not at all. All ranges must agree; a mixture proves nothing."""
    found = {
        _evidence_from_mark(committable, split.stop, committed.get(split.partition, GroupOffset(-1)), job_uid)
        for split in committable.ranges
    }
    return found.pop() if len(found) == 1 else CommitOutcome.UNCERTAIN


def _evidence_from_mark(committable: KafkaCommittable, stop: int, offset: GroupOffset, job_uid: str) -> CommitOutcome:
    """One range, by the last mark of its partition.

    - The attempt that wrote the committable, this checkpoint or later, at the range's stop: committed. The attempt
      commits a checkpoint only when the previous checkpoint is committed.
    - The same attempt, an earlier checkpoint: lost. The attempt marks each partition before it writes, so the
      transaction would have moved the offset next.
    - A later attempt, at the range's stop: the document was restored by hand. That attempt had settled the transaction,
      and had written the range again if it was lost: visible.
    - An earlier attempt: nothing. It overwrote the writer's own mark, which was there before the transaction.

    Committables of a release without attempt numbers: an earlier mark proves no loss, because a later attempt may have
    set it.
    """
    mark = mark_of(offset.metadata, job_uid)
    if mark is None:
        return CommitOutcome.UNCERTAIN
    if mark.attempt == committable.attempt and mark.checkpoint_id < committable.checkpoint_id:
        return CommitOutcome.LOST
    wrote_it = mark.checkpoint_id >= committable.checkpoint_id
    known = mark.attempt > committable.attempt > 0 or (wrote_it and mark.attempt >= committable.attempt)
    return CommitOutcome.COMMITTED if known and offset.offset >= stop else CommitOutcome.UNCERTAIN
