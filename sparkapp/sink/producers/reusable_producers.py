"""Producers that may write again, because no request of their last transaction can arrive late (ADR 62)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sparkapp.model.checkpoint.committable import KafkaCommittable


class CommittedTransaction(NamedTuple):
    """The last transaction of an id: it is committed, and no request to end it is still under way.

    Such a request would end the next transaction of the same producer.
    """

    checkpoint_id: int
    producer_id: int
    producer_epoch: int


class ReusableProducers:
    """What an attempt's driver knows of them; a part of its checkpoint coordinator.

    The thread that completes a checkpoint adds, the engine's thread asks, and the orphan sweep's thread retires. Each
    step is atomic.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[str, CommittedTransaction]] = {}
        self._retired: frozenset[tuple[str, int, int]] = frozenset()

    def of_subtask(self, subtask: int) -> dict[str, CommittedTransaction]:
        """The subtask's ids whose producers may be used again, with their last transactions."""
        known = dict(self._of.get(subtask, {}))
        return {
            transactional_id: last
            for transactional_id, last in known.items()
            if (transactional_id, last.producer_id, last.producer_epoch) not in self._retired
        }

    def add(self, committable: KafkaCommittable) -> None:
        """Its transaction was committed by one request, which was answered."""
        self._of.setdefault(committable.subtask, {})[committable.transactional_id] = CommittedTransaction(
            committable.checkpoint_id, committable.producer_id, committable.producer_epoch
        )

    def retire(self, triples: Collection[tuple[str, int, int]]) -> None:
        """No later order has these producers used again; called by the orphan sweep, before it asks for ids in use.

        :param triples: transactional id, producer id and epoch. They are retired for good: an EndTxn may come late.
        """
        self._retired |= frozenset(triples)

    def clear(self) -> None:
        """A rescale in place may give the ids to other subtasks."""
        self._of = {}
