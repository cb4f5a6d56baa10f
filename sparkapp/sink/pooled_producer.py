"""A producer as the pool keeps it; values only."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.native.interface import BatchProducer


@dataclass(frozen=True, slots=True)
class PooledProducer:
    """A live transactional producer and the identity under which the broker knows it: its one transaction's."""

    producer: BatchProducer
    transactional_id: str
    producer_id: int
    producer_epoch: int
