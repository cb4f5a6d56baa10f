"""What the coordinator's answer to EndTxn(commit) means: the committer's one truth table.

Seen against a real broker with a client that speaks EndTxn v1 (the design's table; cases P03, P04, P09, P10, P11, C01
to C07). Where the answer alone does not decide, a witness does: the group offsets that moved with the transaction, and
without them what the coordinator still tells of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

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


class Witnessed(Enum):
    """What the group's committed offsets, or the coordinator, say of a committable."""

    COMMITTED = "committed"
    LOST = "lost"
    UNKNOWN = "unknown"
    """No ranges to compare with, or offsets that fit neither story; nothing is left of it at the coordinator."""
    PENDING = "pending"
    """Its coordinator refuses the triple and has not ended the transaction yet: to be asked again, later."""


ENDINGS: Mapping[str, Witnessed] = {
    "PrepareCommit": Witnessed.COMMITTED,
    "CompleteCommit": Witnessed.COMMITTED,
    "PrepareAbort": Witnessed.LOST,
    "CompleteAbort": Witnessed.LOST,
}
"""How a transaction ends that the coordinator describes in these states; in any other nothing has ended."""


def would_end_another(
    committable: KafkaCommittable, *, state: str, producer_id: int, producer_epoch: int, start_time_ms: int
) -> bool:
    """Whether EndTxn by the committable's triple would end what it does not mean: another transaction is open there.

    Not asked by a driver that has just written the document: until its next one a slot is not used again.
    """
    return (
        committable.start_time_ms > 0
        and state == "Ongoing"
        and (producer_id, producer_epoch) == (committable.producer_id, committable.producer_epoch)
        and start_time_ms != committable.start_time_ms
    )


def traced(
    committable: KafkaCommittable, *, state: str, producer_id: int, producer_epoch: int, start_time_ms: int
) -> Witnessed:
    """What the coordinator's description of the transactional id proves of the committable. Pure.

    Producer id and start are the transaction's own; they outlive its end, a broker's restart and the epoch that the
    time-out moves on, until the id is initialised again. A later start under the same producer id and epoch is a later
    transaction of one producer, which begins again only after a commit (``sink.producer_pool``). The state alone proves
    nothing: an id may have been committed, taken over, and aborted since.

    :param state: by the coordinator's own name.
    """
    if not committable.start_time_ms or producer_id != committable.producer_id:
        return Witnessed.UNKNOWN
    if start_time_ms == committable.start_time_ms:
        return ENDINGS.get(state, Witnessed.PENDING)
    if producer_epoch == committable.producer_epoch and start_time_ms > committable.start_time_ms:
        return Witnessed.COMMITTED
    return Witnessed.UNKNOWN


class GroupOffset(NamedTuple):
    """A committed offset of the group as the broker keeps it: the next record, and the text of whoever committed it."""

    offset: int
    metadata: str = ""


def offset_mark(job_uid: str, attempt: int, checkpoint_id: int) -> str:
    """The text that a job stores with each offset that it commits, inside and outside transactions.

    An offset alone proves nothing: a group may have been ahead of the job's start (EARLIEST with a group of old, or a
    topic made anew), or be moved by somebody else.
    """
    return f"{job_uid}/{attempt}/{checkpoint_id}"


def marked_checkpoint(metadata: str, job_uid: str) -> int | None:
    """The checkpoint that a mark names; None where it is not this job's."""
    uid, _, rest = metadata.partition("/")
    number = rest.partition("/")[2]
    return int(number) if uid == job_uid and number.isascii() and number.isdigit() else None


def witness(
    committable: KafkaCommittable, committed: Mapping[TopicPartition, GroupOffset], *, job_uid: str
) -> Witnessed:
    """Compares the transaction's ranges with the group's stable committed offsets and the marks on them. Pure.

    The offsets move with the transaction or not at all, and every partition was marked before its first range was
    written. So this checkpoint's mark (or a later one's) at a range's stop means committed, the mark of an earlier one
    means lost. Anything else is somebody else's doing, or has expired with the group: nothing is concluded from it,
    and nothing from a mixture.

    :param committed: partitions without a committed offset are absent.
    :param job_uid: the marks of other jobs count as somebody else's.
    """
    found = set()
    for split in committable.ranges:
        offset, metadata = committed.get(split.partition, GroupOffset(-1))
        checkpoint = marked_checkpoint(metadata, job_uid)
        if checkpoint is None:
            found.add(Witnessed.UNKNOWN)
        elif checkpoint < committable.checkpoint_id:
            found.add(Witnessed.LOST)
        else:
            found.add(Witnessed.COMMITTED if offset >= split.stop else Witnessed.UNKNOWN)
    return found.pop() if len(found) == 1 else Witnessed.UNKNOWN
