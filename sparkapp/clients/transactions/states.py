"""Answers of transaction coordinators about transactional ids, and the protocol that gets them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.model.partition import TopicPartition


class TransactionState(StrEnum):
    """States by the coordinator's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"
    """A name that this release does not know; neither open nor finished."""

    @property
    def open(self) -> bool:
        """Whether it holds back readers until a request ends it."""
        return self in {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE}

    @property
    def ending(self) -> bool:
        """Whether the coordinator is writing its markers; the transaction ends by itself soon."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}


def state_of(name: str) -> TransactionState:
    """The state of a wire name; a name of a newer broker is UNKNOWN, not an error."""
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

    :param start_time_ms: begin of the transaction by the broker's wall clock. It stays after the end, also on another
        coordinator; -1 since a producer of the id was initialised.
    :param partitions: partitions that the open transaction has written to.
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


class OpenProducer(NamedTuple):
    """A producer with an open transaction in a partition, by the partition's leader (DescribeProducers).

    :param epoch: of its last record there. :param start_offset: of the transaction's first record there.
    """

    producer_id: int
    epoch: int
    start_offset: int


class TransactionDescriber(Protocol):
    """Part of :class:`sparkapp.clients.transactions.client.TransactionClient`.

    Called by the producer pool around a write, by the driver before a document, by recovery before it ends anything.
    """

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]: ...

    def forget_coordinators(self, transactional_ids: Iterable[str]) -> None: ...
