"""Lingering transactions: open, and named by no checkpoint. They hold back every reader until they are aborted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    is_of_prefix,
    offsets_id,
)
from sparkapp.model.errors import AuthorizationFailed, KafkaUnreachable, ListingUnsupported
from sparkapp.model.transactional_id import (
    FIRST_HINT,
    SAFE_SCALE_DOWN_FACTOR,
    TransactionalIdGenerator,
    TransactionalIdHint,
)

LOG = logging.getLogger(__name__)

_PAUSE = 0.02


class LingeringTransactions(Protocol):
    """Part of :class:`sparkapp.clients.transactions.client.TransactionClient`; jobs fence by ``sink.proven_fence``."""

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> list[TransactionListing]: ...

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]: ...

    def fence_all(self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to do with the transactions that were found; ids in the order they were found in.

    :param abort: open: fenced, which aborts them.
    :param idle: without an open transaction: fenced, because a producer of it may be alive that no later list finds.
    :param wait: already ending: the coordinator is writing markers, fencing would gain nothing.
    """

    abort: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    wait: tuple[str, ...] = ()


def select(found: Mapping[str, TransactionState], *, first_start: bool, retired: Collection[str] = ()) -> Selection:
    """Chooses among transactions found after every committable has been settled. Pure.

    Open transactions then belong to no checkpoint. They are a newer epoch under a committable's id (A18), an id above
    the current parallelism (A01, H19), or an id of a previous prefix. Idle ids are fenced only on a first start (H09).
    Later they include a document's committables, whose triples must stay valid until the next document is written.

    :param retired: prefixes that no later attempt looks for, and without a committable. Their idle ids are fenced, too.
    """
    return Selection(
        abort=tuple(transactional_id for transactional_id, state in found.items() if state.open),
        idle=tuple(
            transactional_id
            for transactional_id, state in found.items()
            if not state.open
            and not state.ending
            and (first_start or any(is_of_prefix(transactional_id, prefix) for prefix in retired))
        ),
        wait=tuple(transactional_id for transactional_id, state in found.items() if state.ending),
    )


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


def walked_ids(
    prefix: str, *, hint: TransactionalIdHint, slots: SlotBounds, parallelism: int, pool_size: int
) -> Iterator[str]:
    """The ids of both namings that previous attempts can have used, and the driver's. Pure.

    Ids by subtask and slot are known exactly, except on a first start: then five times the parallelism with the largest
    possible pool.
    """
    if is_first_start(hint, slots):
        slots = SlotBounds(min(SAFE_SCALE_DOWN_FACTOR * parallelism, MAX_PARALLELISM), MAX_POOL_SIZE)
    numbered = bounded_ids(prefix, hint=hint, parallelism=parallelism, pool_size=pool_size)
    return chain(numbered, slots.ids(prefix), [offsets_id(prefix)])


def abort_lingering(
    client: LingeringTransactions,
    prefixes: Sequence[str],
    *,
    hint: TransactionalIdHint,
    slots: SlotBounds = NO_SLOTS,
    parallelism: int,
    pool_size: int,
    retired: Collection[str] = (),
    timeout: float = 120.0,
    before_fencing: Callable[[], None] = lambda: None,
) -> tuple[str, ...]:
    """Aborts every open transaction of the prefixes, whatever its naming. Returns their ids.

    Called after the committables are settled, before anything is produced.

    :param prefixes: the job's prefix, then previous prefixes; ids of any other prefix are not touched (A07).
    :param hint: restored, as are ``slots``. Without either it is a first start.
    :param parallelism: of the new attempt, as is ``pool_size``.
    :param retired: see :func:`select`.
    :param timeout: seconds for the whole call.
    :param before_fencing: called right before transactions are ended; its error ends the sweep. Jobs require their
        claim here (``checkpoint.claim``): a transaction may be a later attempt's.
    :raises KafkaUnreachable: not done in time; a repeated call continues.
    :raises AuthorizationFailed: an id of the prefixes may not be described or written.
    """
    deadline = Deadline.after(timeout)
    found = find_transactions(
        client, prefixes, hint=hint, slots=slots, parallelism=parallelism, pool_size=pool_size, deadline=deadline
    )
    selection = select(found, first_start=is_first_start(hint, slots), retired=retired)
    _fence(client, (*selection.abort, *selection.idle), deadline, before_fencing)
    late = _await_end(client, selection.wait, deadline)
    _fence(client, late, deadline, before_fencing)
    aborted = (*selection.abort, *late)
    for aborted_id in aborted:
        LOG.warning("lingering transaction %s aborted", aborted_id)
    return aborted


def find_transactions(
    client: LingeringTransactions,
    prefixes: Sequence[str],
    *,
    hint: TransactionalIdHint,
    slots: SlotBounds,
    parallelism: int,
    pool_size: int,
    deadline: Deadline,
) -> dict[str, TransactionState]:
    """The ids of the prefixes that coordinators know, with their states.

    Where listing is not allowed the ids that earlier attempts can have used are walked. Parameters as for
    :func:`abort_lingering`.

    :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: an id may not be described.
    """
    rows = find_listings(
        client, prefixes, hint=hint, slots=slots, parallelism=parallelism, pool_size=pool_size, deadline=deadline
    )
    # Two brokers may name an id, of which one has lost its role. What is open in any of their eyes is fenced.
    return {row.transactional_id: row.state for row in sorted(rows, key=lambda row: row.state.open)}


def find_listings(
    client: LingeringTransactions,
    prefixes: Sequence[str],
    *,
    hint: TransactionalIdHint,
    slots: SlotBounds,
    parallelism: int,
    pool_size: int,
    deadline: Deadline,
) -> list[TransactionListing]:
    """:func:`find_transactions` with the producer ids; of an id that two brokers name, both rows."""
    try:
        return [
            row for prefix in dict.fromkeys(prefixes) for row in client.list_transactions(prefix, deadline=deadline)
        ]
    except (AuthorizationFailed, ListingUnsupported) as error:
        LOG.info("transactions cannot be listed (%s); walking the ids that earlier attempts can have used", error)
        ids = chain.from_iterable(
            walked_ids(prefix, hint=hint, slots=slots, parallelism=parallelism, pool_size=pool_size)
            for prefix in dict.fromkeys(prefixes)
        )
        described = client.describe(ids, deadline=deadline)
        return [
            TransactionListing(transactional_id=transactional_id, producer_id=now.producer_id, state=now.state)
            for transactional_id, now in described.items()
        ]


def _fence(client: LingeringTransactions, ids: Sequence[str], deadline: Deadline, before: Callable[[], None]) -> None:
    if ids:
        before()
        client.fence_all(ids, deadline=deadline)


def _await_end(client: LingeringTransactions, ids: Sequence[str], deadline: Deadline) -> tuple[str, ...]:
    """Waits until none of the ids is ending; returns those that a zombie opened again meanwhile."""
    waiting = list(ids)
    opened: list[str] = []
    while waiting:
        states = {
            transactional_id: description.state
            for transactional_id, description in client.describe(waiting, deadline=deadline).items()
        }
        opened += [
            transactional_id
            for transactional_id in waiting
            if transactional_id in states and states[transactional_id].open
        ]
        waiting = [
            transactional_id
            for transactional_id in waiting
            if transactional_id in states and states[transactional_id].ending
        ]
        if waiting and deadline.expired:
            msg = f"these transactions do not end: {', '.join(waiting)}"
            raise KafkaUnreachable(msg)
        if waiting:
            time.sleep(deadline.bound(_PAUSE))
    return tuple(opened)
