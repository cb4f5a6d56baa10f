"""A list of transactions is complete, or it is taken again: what brokers say while coordinators start or move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.connection import RetriableWireError
from sparkapp.clients.transactions.probes import partition_of, probe_ids
from sparkapp.clients.transactions.states import TransactionListing, TransactionState
from sparkapp.model.errors import KafkaUnreachable

PARTITIONS = 4


@given(prefix=st.text(max_size=20), partitions=st.integers(1, 60))
def test_every_partition_is_asked_for_an_id_of_its_own(prefix: str, partitions: int) -> None:
    ids = probe_ids(prefix, partitions)
    assert sorted(partition_of(each, partitions) for each in ids) == list(range(partitions))
    assert all(each.startswith(f"{prefix}-") for each in ids)


def test_an_id_whose_hash_has_no_positive_counterpart() -> None:
    """Kafka's ``Utils.abs``: 0 for the smallest of Java's integers."""
    assert partition_of("polygenelubricants", 50) == 0


class Here:
    """A connection that needs no thread."""

    def run(self, deadline: Deadline, work: Callable[[], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            return await work()

        return asyncio.run(main())

    async def gather(self, work: Callable[[Any], Awaitable[Any]], items: Iterable[Any]) -> list[Any]:
        return [await work(each) for each in items]

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@dataclass
class Brokers:
    """Two of them, of which each coordinates what :attr:`leads` says; a broker that has loaded lists one id.

    :ivar terms: how often each partition's coordinator has begun.
    :ivar named: those that the cluster's metadata names.
    :ivar after_list: called when a broker has been asked for its transactions.
    """

    leads: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 1))
    terms: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 1))
    named: list[int] = field(default_factory=lambda: [1, 2])
    loading: int = 0
    lists: int = 0
    after_list: Callable[[], None] = field(default=lambda: None)

    def brokers(self) -> list[int]:
        return self.named

    def forget_coordinators(self, ids: Sequence[str]) -> None:
        """Nothing is remembered."""

    async def transaction_partitions(self, limit: Deadline) -> int:
        return PARTITIONS

    async def coordinators(self, ids: Sequence[str], limit: Deadline) -> dict[str, int]:
        return {each: self.leads[partition_of(each, PARTITIONS)] for each in ids}

    async def transaction_leaders(self, node: int, limit: Deadline) -> dict[int, tuple[int, int]]:
        return {partition: (leader, self.terms[partition]) for partition, leader in self.leads.items()}

    async def require_loaded(self, ids: Sequence[str], node: int, limit: Deadline) -> None:
        if self.loading:
            self.loading -= 1
            raise RetriableWireError("COORDINATOR_LOAD_IN_PROGRESS", "loading")

    async def list_transactions(self, pattern: str | None, node: int, limit: Deadline) -> list[TransactionListing]:
        self.lists += 1
        known = node in self.leads.values() and not self.loading
        self.after_list()
        row = TransactionListing(transactional_id="p-0", producer_id=1, state=TransactionState.ONGOING)
        return [row] if known else []


def client_of(brokers: Brokers) -> TransactionClient:
    client = TransactionClient({"bootstrap.servers": "b:1"})
    client._connection, client._wire = Here(), brokers  # type: ignore[assignment]
    return client


def ids_of(brokers: Brokers) -> list[str]:
    return [row.transactional_id for row in client_of(brokers).list_transactions("p")]


def test_a_list_is_taken_when_every_coordinator_has_loaded() -> None:
    """A broker that has just started lists nothing, without an error."""
    assert ids_of(Brokers(loading=3)) == ["p-0"]


def test_a_coordinator_that_the_metadata_does_not_name_is_asked() -> None:
    """A broker that is starting names no broker at all, itself included."""
    assert ids_of(Brokers(named=[])) == ["p-0"]


def test_a_list_during_which_a_coordinator_moved_is_taken_again() -> None:
    brokers = Brokers()

    def move() -> None:
        brokers.leads = dict.fromkeys(range(PARTITIONS), 2)

    brokers.after_list = move
    assert ids_of(brokers) == ["p-0"]
    assert brokers.lists == 4, "both brokers, twice"


def test_a_list_during_which_a_coordinator_went_and_came_back_is_taken_again() -> None:
    """The coordinator is the same before and after, and listed nothing in between."""
    brokers = Brokers()

    def come_back() -> None:
        if brokers.lists == 2:
            brokers.terms = {partition: term + 2 for partition, term in brokers.terms.items()}

    brokers.after_list = come_back
    assert ids_of(brokers) == ["p-0"]
    assert brokers.lists == 4, "both brokers, twice"


def test_coordinators_that_do_not_load_in_time_are_no_empty_list() -> None:
    with pytest.raises(KafkaUnreachable, match="loading"):
        client_of(Brokers(loading=10**9)).list_transactions("p", deadline=Deadline.after(0.05))
