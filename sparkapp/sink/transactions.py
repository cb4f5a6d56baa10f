"""What a transaction coordinator says of transactional ids; values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sparkapp.model.partition import TopicPartition


class TransactionState(StrEnum):
    """States by the coordinator's own names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"
    """A name that this release does not know; never treated as open or as finished."""

    @property
    def open(self) -> bool:
        """Whether it holds back readers until somebody ends it."""
        return self in {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE}

    @property
    def ending(self) -> bool:
        """Whether the coordinator is writing its markers; it ends by itself, soon."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}


def state_of(name: str) -> TransactionState:
    """The state of a wire name; one from a newer broker is UNKNOWN, not an error."""
    try:
        return TransactionState(name)
    except ValueError:
        return TransactionState.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One row of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """One answer of DescribeTransactions.

    :param start_time_ms: when the transaction began, in the broker's wall clock. Still told of one that has ended, also
        by another coordinator; -1 since its producer, or another one, was initialised.
    :param partitions: what the open transaction has written to.
    """

    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: frozenset[TopicPartition] = frozenset()

    def is_open_with(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this producer's transaction is open, so that it can be committed by its triple."""
        ours = (self.producer_id, self.producer_epoch) == (producer_id, producer_epoch)
        return ours and self.state is TransactionState.ONGOING


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    """One request to end a transaction: the triple that names it, and how."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
