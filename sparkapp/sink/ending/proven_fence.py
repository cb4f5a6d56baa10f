"""A fence whose aborts are proven by the partitions' leaders (ADR 68)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import TransactionDescription, TransactionListing
from sparkapp.sink.ending.proven_ends import Ended, EndingClient, ProvenEnds, aborted_by_init
from sparkapp.sink.ending.used_ids import ListingClient

PROOF_SECONDS = 60.0
"""For a partition without a leader to get one; after that the attempt ends, and the next attempt continues."""


class FencingClient(EndingClient, ListingClient, Protocol):
    """Part of :class:`sparkapp.clients.transactions.client.TransactionClient`."""


class ProvenFence:
    """A client whose :meth:`fence_all` returns when each abort is in the logs; used by recovery and by the driver.

    The last end of each id must be proven before: an initialisation erases how it ended.
    """

    def __init__(self, client: FencingClient, ends: ProvenEnds) -> None:
        self._client = client
        self._ends = ends

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> list[TransactionListing]:
        """See :meth:`TransactionClient.list_transactions`."""
        return self._client.list_transactions(prefix, deadline=deadline)

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        """See :meth:`TransactionClient.describe`."""
        return self._client.describe(transactional_ids, deadline=deadline)

    def fence_all(self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None) -> None:
        """See :meth:`TransactionClient.fence_all`; the aborts are proven.

        :raises KafkaUnreachable: also where a partition has no leader in time.
        """
        used = deadline or Deadline.after(PROOF_SECONDS)
        ids = list(transactional_ids)
        before = self._client.describe(ids, deadline=used)
        after = self._client.fence_all(ids, deadline=used)
        self._ends.require(list(_aborted(before, after)), deadline=used)


def _aborted(before: Mapping[str, TransactionDescription], after: Mapping[str, tuple[int, int]]) -> Iterator[Ended]:
    for transactional_id, (producer_id, epoch) in after.items():
        found = before.get(transactional_id)
        ended = found and aborted_by_init(transactional_id, found, producer_id, epoch, was_proven=not found.state.open)
        if ended:
            yield ended
