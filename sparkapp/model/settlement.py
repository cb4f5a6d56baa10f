"""What the coordinator's answer to EndTxn(commit) means: the committer's one truth table.

Seen against a real broker with a client that speaks EndTxn v1 (the design's table; cases P03, P04, P09, P10, P11, C01
to C07). Where the answer alone does not decide, :func:`evidence` does: what the coordinator still tells of the
transaction, and the group offsets that moved with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.partition import TopicPartition


class EndTxnAnswer(Enum):
    """Answers by Kafka's error names; OTHER_* group those that are treated alike."""

    NONE = "NONE"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    LATER_TRANSACTION = "LATER_TRANSACTION"
    """None of Kafka's: nothing was sent, for it would have ended another transaction of the same producer."""
    OTHER_RETRIABLE = "OTHER_RETRIABLE"
    """Coordinator moving or loading, time-outs, lost connections."""
    OTHER_FATAL = "OTHER_FATAL"
    """Authorization and anything unknown: the outcome is not proven, the attempt fails and the next one asks again."""


class Verdict(Enum):
    """What to do with one committable."""

    COMMITTED = "committed"
    RETRY = "retry"
    ASK_WITNESS = "ask witness"
    FAIL = "fail"


VERDICTS: Mapping[EndTxnAnswer, Verdict] = {
    EndTxnAnswer.NONE: Verdict.COMMITTED,
    EndTxnAnswer.CONCURRENT_TRANSACTIONS: Verdict.RETRY,
    EndTxnAnswer.OTHER_RETRIABLE: Verdict.RETRY,
    # None of these three proves a loss by itself: the commit may have come before. Complete abort, or empty. Also what
    # an expired transaction answers on brokers without KAFKA-20785.
    EndTxnAnswer.INVALID_TXN_STATE: Verdict.ASK_WITNESS,
    # Timed out (the broker bumped the epoch), or a newer producer took the id over; the commit may have come before.
    EndTxnAnswer.PRODUCER_FENCED: Verdict.ASK_WITNESS,
    # The id expired after transactional.id.expiration.ms, perhaps long after its commit.
    EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING: Verdict.ASK_WITNESS,
    # Of a document that was put back: its id is in use again, and what is open there is no checkpoint's (A18, T15).
    EndTxnAnswer.LATER_TRANSACTION: Verdict.ASK_WITNESS,
    EndTxnAnswer.OTHER_FATAL: Verdict.FAIL,
}


class Fate(Enum):
    """What evidence says of a committable."""

    COMMITTED = "committed"
    LOST = "lost"
    UNKNOWN = "unknown"
    """Nothing is left of it at its coordinator, and no offset fits a commit or a loss."""
    PENDING = "pending"
    """Its coordinator has not ended the transaction yet: to be asked again, later."""


ENDINGS: Mapping[str, Fate] = {
    "PrepareCommit": Fate.COMMITTED,
    "CompleteCommit": Fate.COMMITTED,
    "PrepareAbort": Fate.LOST,
    "CompleteAbort": Fate.LOST,
}
"""How a transaction ends that the coordinator describes in these states; in any other nothing has ended."""


_STRONGEST_FIRST = (Fate.COMMITTED, Fate.LOST, Fate.PENDING, Fate.UNKNOWN)


class Described(Protocol):
    """What a coordinator tells of a transactional id: ``sink.transactions.TransactionDescription``."""

    @property
    def state(self) -> str:
        """By the coordinator's own name."""
        ...

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def start_time_ms(self) -> int: ...


class GroupOffset(NamedTuple):
    """A committed offset of the group as the broker keeps it: the next record, and the text of whoever committed it."""

    offset: int
    metadata: str = ""


class Mark(NamedTuple):
    """Who committed an offset of the group, by the text beside it."""

    attempt: int
    checkpoint_id: int


def offset_mark(job_uid: str, attempt: int, checkpoint_id: int) -> str:
    """The text that a job stores with each offset that it commits, inside and outside transactions.

    An offset alone proves nothing: a group may have been ahead of the job's start (EARLIEST with a group of old, or a
    recreated topic), or be moved by somebody else.
    """
    return f"{job_uid}/{attempt}/{checkpoint_id}"


def mark_of(metadata: str, job_uid: str) -> Mark | None:
    """:func:`offset_mark` read back; None where it is not this job's."""
    uid, *numbers = metadata.split("/")
    known = uid == job_uid and len(numbers) == 2 and all(one.isascii() and one.isdigit() for one in numbers)
    return Mark(int(numbers[0]), int(numbers[1])) if known else None


def evidence(
    committable: KafkaCommittable,
    described: Described | None,
    committed: Mapping[TopicPartition, GroupOffset],
    *,
    job_uid: str,
) -> Fate:
    """What became of a transaction, by everything that is left of it. Pure; ADR 25 has the proof.

    Strongest first. A commit is the only cause of what proves it: neither a lost message nor a late one can make a
    coordinator say that this very transaction is committed, nor put this checkpoint's mark on a group offset. A loss is
    proven by what is missing, so whatever proves the commit outweighs it, whoever says so. Where both say nothing,
    nothing is concluded.

    :param described: what the coordinator tells of the id, asked before anybody aborts what is open under it; None
        where it knows nothing.
    :param committed: the group's stable offsets, read after every earlier attempt was fenced; partitions without one
        are absent.
    :param job_uid: the marks of other jobs count as somebody else's.
    """
    told = (_told_by_coordinator(committable, described), _told_by_marks(committable, committed, job_uid))
    return min(told, key=_STRONGEST_FIRST.index)


def ends_another(committable: KafkaCommittable, described: Described) -> bool:
    """Whether EndTxn by the committable's triple would end a transaction that it does not mean: another one of the same
    producer is open. Pure.

    Of a document that was put back. A driver that has just written the document does not ask: none of its slots is in
    use again before the next document.
    """
    same = (described.producer_id, described.producer_epoch) == (committable.producer_id, committable.producer_epoch)
    is_meant = described.start_time_ms == committable.start_time_ms or not committable.start_time_ms
    return same and described.state == "Ongoing" and not is_meant


def _told_by_coordinator(committable: KafkaCommittable, described: Described | None) -> Fate:
    """Producer id and start are the transaction's own; they outlive its end, a broker's restart and the epoch that the
    time-out moves on, until the id is initialised again. A later start under the same producer id and epoch is a later
    transaction of one producer, which begins again only after a commit (``sink.producer_pool``). The state alone proves
    nothing: an id may have been committed, taken over, and aborted since.
    """
    if described is None or not committable.start_time_ms or described.producer_id != committable.producer_id:
        return Fate.UNKNOWN
    if described.start_time_ms == committable.start_time_ms:
        return ENDINGS.get(described.state, Fate.PENDING)
    is_later = described.start_time_ms > committable.start_time_ms
    return Fate.COMMITTED if is_later and described.producer_epoch == committable.producer_epoch else Fate.UNKNOWN


def _told_by_marks(
    committable: KafkaCommittable, committed: Mapping[TopicPartition, GroupOffset], job_uid: str
) -> Fate:
    """The offsets move with the transaction or not at all. All ranges must agree, nothing follows from a mixture."""
    found = {
        _told_by_mark(committable, split.stop, committed.get(split.partition, GroupOffset(-1)), job_uid)
        for split in committable.ranges
    }
    return found.pop() if len(found) == 1 else Fate.UNKNOWN


def _told_by_mark(committable: KafkaCommittable, stop: int, offset: GroupOffset, job_uid: str) -> Fate:
    """One range, by who moved its partition last.

    - The attempt that wrote the committable, for this checkpoint or a later one, to the range's stop: committed, for it
      begins a checkpoint when the one before is committed.
    - The same attempt, for an earlier checkpoint: lost. It marks each partition before it writes of it, so the
      transaction is what would have moved the offset next.
    - A later attempt, to the range's stop: the document was put back. That attempt had settled the transaction, and
      had written the range again if it was lost: visible.
    - An earlier attempt: nothing. The writer's own mark, which was there before the transaction, was overwritten.

    A release that did not note the attempt proves no loss by an earlier mark, which may be a later attempt's.
    """
    mark = mark_of(offset.metadata, job_uid)
    if mark is None:
        return Fate.UNKNOWN
    if mark.attempt == committable.attempt and mark.checkpoint_id < committable.checkpoint_id:
        return Fate.LOST
    wrote_it = mark.checkpoint_id >= committable.checkpoint_id
    known = mark.attempt > committable.attempt > 0 or (wrote_it and mark.attempt >= committable.attempt)
    return Fate.COMMITTED if known and offset.offset >= stop else Fate.UNKNOWN
