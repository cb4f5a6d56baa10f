"""What the coordinator's answer to EndTxn(commit) means: the committer's one truth table.

Seen against a real broker with a client that speaks EndTxn v1 (the design's table; cases P03, P04, P09, P10, P11, C01
to C07). Where the answer alone does not decide, the witness does: the group offsets that moved with the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.partition import TopicPartition


class EndTxnAnswer(Enum):
    """Answers by Kafka's error names; OTHER_* group those that are treated alike."""

    NONE = "NONE"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
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
    # Complete abort, or empty. Also what an expired transaction answers on brokers without KAFKA-20785.
    EndTxnAnswer.INVALID_TXN_STATE: Verdict.ASK_WITNESS,
    # Timed out (the broker bumped the epoch), or a newer producer took the id over; the commit may have come before.
    EndTxnAnswer.PRODUCER_FENCED: Verdict.ASK_WITNESS,
    # The id expired after transactional.id.expiration.ms, perhaps long after its commit.
    EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING: Verdict.ASK_WITNESS,
    EndTxnAnswer.OTHER_FATAL: Verdict.FAIL,
}


class Witnessed(Enum):
    """What the group's committed offsets say of a committable."""

    COMMITTED = "committed"
    LOST = "lost"
    UNKNOWN = "unknown"
    """No ranges to compare with, or offsets that fit neither story."""


def witness(committable: KafkaCommittable, committed: Mapping[TopicPartition, int]) -> Witnessed:
    """Compares the transaction's ranges with the group's stable committed offsets.

    The offsets move with the transaction or not at all: every range covered means committed, every range uncovered
    means lost. A mixture cannot come from this transaction (somebody else commits to the group), so nothing is
    concluded from it.

    :param committed: next offset a partition; partitions without a committed offset are absent.
    """
    if not committable.ranges:
        return Witnessed.UNKNOWN
    covered = {committed.get(split.partition, -1) >= split.stop for split in committable.ranges}
    if covered == {True}:
        return Witnessed.COMMITTED
    untouched = all(committed.get(split.partition, -1) <= split.start for split in committable.ranges)
    return Witnessed.LOST if untouched else Witnessed.UNKNOWN
