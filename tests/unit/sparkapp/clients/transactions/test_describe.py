"""Descriptions of many ids; what a broker answers is proven against a real broker (group A)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import DESCRIBE_AT_ONCE, TransactionClient
from sparkapp.clients.transactions.connection import RefusedWireError
from sparkapp.model.errors import KafkaAccessError


class Here:
    """A connection and a wire that know no id, and refuse every request after the third."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def run(self, deadline: Deadline, work: Callable[[], Awaitable[Any]]) -> Any:
        async def awaited() -> Any:
            return await work()

        return asyncio.run(awaited())

    async def gather(self, work: object, items: object) -> list[Any]:
        return []

    async def coordinators(self, ids: Sequence[str], deadline: Deadline) -> dict[str, object]:
        if len(self.asked) == 3:
            raise RefusedWireError("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "no")
        self.asked.append(list(ids))
        return {}


def client_of(here: Here) -> TransactionClient:
    client = TransactionClient({"bootstrap.servers": "b:1"})
    client._connection = client._wire = here  # type: ignore[assignment]
    return client


def test_ids_are_taken_as_they_are_asked_for() -> None:
    """A walk may have more ids than memory holds."""
    here = Here()
    made = 0

    def walk() -> Iterator[str]:
        nonlocal made
        while made <= 100 * DESCRIBE_AT_ONCE:
            made += 1
            yield f"p-{made}"

    with pytest.raises(KafkaAccessError):
        client_of(here).describe(walk())
    assert made == 4 * DESCRIBE_AT_ONCE
    assert [len(part) for part in here.asked] == [DESCRIBE_AT_ONCE] * 3


def test_every_id_is_asked_for_and_none_asks_nobody() -> None:
    here = Here()
    names = [f"p-{number}" for number in range(DESCRIBE_AT_ONCE + 1)]
    assert client_of(here).describe(names) == {}
    assert here.asked == [names[:-1], names[-1:]]
    assert client_of(here).describe(iter(())) == {}
    assert len(here.asked) == 2
