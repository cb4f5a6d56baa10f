"""Coordinators that the wire remembers, with a connection whose answers the test decides."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.requests import KafkaWire


class StandInConnection:
    """Broker 1 coordinates every id. While a lookup is under way, another request forgets the ids of ``forgotten``."""

    def __init__(self) -> None:
        self.wire = KafkaWire(self)  # type: ignore[arg-type]
        self.forgotten: list[str] = []
        self.asked: list[list[str]] = []
        self.cluster = self

    async def send(self, request: Any, node: Any, deadline: Deadline) -> Any:
        self.asked.append(request.coordinator_keys)
        self.wire.forget_coordinators(self.forgotten)
        rows = [SimpleNamespace(key=key, error_code=0) for key in request.coordinator_keys]
        return SimpleNamespace(coordinators=rows)

    def add_coordinator(self, row: Any, kind: Any, key: str, *, synthesize_node_id: bool) -> int:
        return 1


def test_a_coordinator_that_is_forgotten_during_a_lookup_is_still_answered() -> None:
    """The orphan sweep looks the coordinators of a job's ids up again while a checkpoint asks for them."""
    connection = StandInConnection()
    wire, deadline = connection.wire, Deadline.after(10)
    assert asyncio.run(wire.coordinators(["p-1"], deadline)) == {"p-1": 1}
    connection.forgotten = ["p-1"]
    assert asyncio.run(wire.coordinators(["p-1", "p-6"], deadline)) == {"p-1": 1, "p-6": 1}
    connection.forgotten = []
    asyncio.run(wire.coordinators(["p-1", "p-6"], deadline))
    assert connection.asked == [["p-1"], ["p-6"], ["p-1"]], "only unknown ones are looked up"
