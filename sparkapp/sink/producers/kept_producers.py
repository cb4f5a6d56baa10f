"""Producers of pre-committed transactions, kept for the next transactions of their ids (ADR 62)."""

from __future__ import annotations

from collections.abc import Collection

from sparkapp.sink.producers.preparation import PooledProducer
from sparkapp.sink.producers.reusable_producers import CommittedTransaction


class KeptProducers:
    """At most one producer for each id of a subtask; owned by its producer pool."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, PooledProducer]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, entry: PooledProducer, checkpoint_id: int, *, among: Collection[str]) -> None:
        """Keeps the producer of the checkpoint's transaction.

        :param among: the subtask's ids. A rescale may have changed them: producers of other ids are closed.
        """
        self._close(self._kept.keys() - set(among))
        self._kept[entry.transactional_id] = checkpoint_id, entry

    def take(self, transactional_id: str, *, last: CommittedTransaction | None) -> PooledProducer | None:
        """The id's producer, which is kept no longer. It is closed where it may not be used again.

        :param last: the transaction of the id that is known to be committed. The producer must have written exactly it:
            another process may have written the checkpoint again, with or without a transaction.
        """
        if transactional_id not in self._kept:
            return None
        checkpoint_id, entry = self._kept[transactional_id]
        if last != (checkpoint_id, entry.producer_id, entry.producer_epoch):
            self._close([transactional_id])
            return None
        del self._kept[transactional_id]
        return entry

    def close(self) -> None:
        """Closes every producer."""
        self._close(list(self._kept))

    def _close(self, ids: Collection[str]) -> None:
        for transactional_id in ids:
            _, entry = self._kept.pop(transactional_id)
            entry.producer.close()
