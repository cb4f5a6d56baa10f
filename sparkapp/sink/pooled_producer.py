"""A producer as the pool keeps it; values only."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.native.interface import BatchProducer


@dataclass(slots=True)
class PooledProducer:
    """A live transactional producer and the identity under which the broker knows it.

    :param began: whether a transaction was begun with it that the client still believes to be open.
    """

    producer: BatchProducer
    transactional_id: str
    producer_id: int
    producer_epoch: int
    began: bool = False
