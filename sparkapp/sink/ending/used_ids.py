"""The transactional ids that a job's attempts can have used: where its open transactions are looked for."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import TransactionDescription, TransactionListing, TransactionState
from sparkapp.model.checkpoint.naming import (
    MAX_PARALLELISM,
    MAX_POOL_SIZE,
    NO_SLOTS,
    SlotBounds,
    is_first_start,
    offsets_id,
)
from sparkapp.model.errors import AuthorizationFailed, ListingUnsupported
from sparkapp.model.transactional_id import (
    FIRST_HINT,
    SAFE_SCALE_DOWN_FACTOR,
    TransactionalIdGenerator,
    TransactionalIdHint,
)

LOG = logging.getLogger(__name__)


class ListingClient(Protocol):
    """Part of :class:`sparkapp.clients.transactions.client.TransactionClient`."""

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> list[TransactionListing]: ...

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedIds:
    """The ids of both namings, and the drivers' ids.

    :param prefixes: the job's prefix, then previous prefixes; ids of any other prefix are not touched (A07).
    :param hint: restored, as are ``slots``. Without either it is a first start.
    :param parallelism: of the new attempt, as is ``pool_size``.
    """

    prefixes: Sequence[str]
    hint: TransactionalIdHint
    slots: SlotBounds = NO_SLOTS
    parallelism: int
    pool_size: int

    @property
    def is_first_start(self) -> bool:
        """Whether no attempt has named an id in a document."""
        return is_first_start(self.hint, self.slots)

    def walk(self) -> Iterator[str]:
        """Every id that previous attempts can have used. Pure.

        Ids by subtask and slot are known exactly, except on a first start: then five times the parallelism with the
        largest possible pool.
        """
        slots = self.slots
        if self.is_first_start:
            slots = SlotBounds(min(SAFE_SCALE_DOWN_FACTOR * self.parallelism, MAX_PARALLELISM), MAX_POOL_SIZE)
        for prefix in dict.fromkeys(self.prefixes):
            numbered = bounded_ids(prefix, hint=self.hint, parallelism=self.parallelism, pool_size=self.pool_size)
            yield from chain(numbered, slots.ids(prefix), [offsets_id(prefix)])

    def rows(self, client: ListingClient, *, deadline: Deadline) -> list[TransactionListing]:
        """The ids that coordinators know; of an id that two brokers name, both rows.

        Where listing is not allowed the ids of :meth:`walk` are described.

        :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: an id may not be described.
        """
        try:
            return [
                row
                for prefix in dict.fromkeys(self.prefixes)
                for row in client.list_transactions(prefix, deadline=deadline)
            ]
        except (AuthorizationFailed, ListingUnsupported) as error:
            LOG.info("transactions cannot be listed (%s); walking the ids that earlier attempts can have used", error)
            return [
                TransactionListing(transactional_id=each, producer_id=now.producer_id, state=now.state)
                for each, now in client.describe(self.walk(), deadline=deadline).items()
            ]

    def states(self, client: ListingClient, *, deadline: Deadline) -> dict[str, TransactionState]:
        """:meth:`rows`, with a single state of each id."""
        return states_of(self.rows(client, deadline=deadline))


def states_of(rows: Iterable[TransactionListing]) -> dict[str, TransactionState]:
    """A single state of each id. Pure."""
    # Two brokers may name an id, of which one has lost its role. What is open in any of their eyes is fenced.
    return {row.transactional_id: row.state for row in sorted(rows, key=lambda row: row.state.open)}


def bounded_ids(prefix: str, *, hint: TransactionalIdHint, parallelism: int, pool_size: int) -> Iterable[str]:
    """The ids by hint that previous attempts can have used, as far as a hint bounds them. Pure.

    Without a hint these are the ids that all subtasks' generators abort (H08). With a hint they are all ids below its
    next free id, and above it five times the wider of both parallelisms. An attempt that grew and died before its first
    checkpoint left no hint of its own (H19).

    With a hint they are made while they are walked: a job of many years may have more than memory holds.
    """
    if hint == FIRST_HINT:
        ids = {
            transactional_id
            for subtask in range(parallelism)
            for transactional_id in TransactionalIdGenerator(
                prefix=prefix, subtask=subtask, parallelism=parallelism, pool_size=pool_size
            ).ids_to_abort()
        }
        return sorted(ids, key=lambda transactional_id: int(transactional_id.rpartition("-")[2]))
    widest = max(parallelism, hint.last_parallelism)
    end = hint.next_free_transactional_id + SAFE_SCALE_DOWN_FACTOR * widest * pool_size
    return (f"{prefix}-{number}" for number in range(end))
