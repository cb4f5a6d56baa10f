"""Lingering transactions: open, and named by no checkpoint. They hold back every reader until they are aborted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import TransactionState
from sparkapp.model.checkpoint.naming import is_of_prefix
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.sink.ending.used_ids import ListingClient, UsedIds

LOG = logging.getLogger(__name__)

_PAUSE = 0.02


class LingeringTransactions(ListingClient, Protocol):
    """Part of :class:`sparkapp.clients.transactions.client.TransactionClient`; jobs fence by ``proven_fence``."""

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


def abort_lingering(
    client: LingeringTransactions,
    ids: UsedIds,
    *,
    states: Mapping[str, TransactionState] | None = None,
    retired: Collection[str] = (),
    timeout: float = 120.0,
    before_fencing: Callable[[], None] = lambda: None,
) -> tuple[str, ...]:
    """Aborts every open transaction of the ids' prefixes, whatever its naming. Returns their ids.

    Called after the committables are settled, before anything is produced.

    :param states: of all ids of the prefixes, by a list behind the attempt's claim; None to list them now.
    :param retired: see :func:`select`.
    :param timeout: seconds for the whole call.
    :param before_fencing: called right before transactions are ended; its error ends the sweep. Jobs require their
        claim here (``checkpoint.claim``): a transaction may be a later attempt's.
    :raises KafkaUnreachable: not done in time; a repeated call continues.
    :raises AuthorizationFailed: an id of the prefixes may not be described or written.
    """
    deadline = Deadline.after(timeout)
    found = ids.states(client, deadline=deadline) if states is None else states
    selection = select(found, first_start=ids.is_first_start, retired=retired)
    _fence(client, (*selection.abort, *selection.idle), deadline, before_fencing)
    late = _await_end(client, selection.wait, deadline)
    _fence(client, late, deadline, before_fencing)
    aborted = (*selection.abort, *late)
    for aborted_id in aborted:
        LOG.warning("lingering transaction %s aborted", aborted_id)
    return aborted


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
