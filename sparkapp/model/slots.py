"""Which checkpoint holds which transactional id: the rule that keeps a named transaction from being aborted.

The next producer of an id aborts what is open under it, and after that nobody can commit the triple in a checkpoint
document. An id is therefore used again only when a newer checkpoint than the one that held it has been settled: then no
document names it any more (case T15).
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkapp.model.errors import InvalidArgument, ProducersPoolEmpty


class Slots:
    """Bookkeeping of one process; kept by its producer pool, asked by each writer when it begins a transaction."""

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self._settled = -1

    def take(self, ids: Sequence[str], checkpoint_id: int) -> str:
        """The id that a subtask writes a checkpoint's transaction under: ``checkpoint mod pool`` of its ids.

        Taking it again for the same checkpoint is a retry and gives the same id.

        :param ids: the subtask's pool, in order.
        :raises ProducersPoolEmpty: the id belongs to a checkpoint that is not settled, or to the newest settled one,
            which the current document still names (T01, T08).
        """
        if checkpoint_id < 0 or not ids:
            msg = f"no slot for checkpoint {checkpoint_id} among {len(ids)} ids"
            raise InvalidArgument(msg)
        transactional_id = ids[checkpoint_id % len(ids)]
        holder = self._holders.get(transactional_id)
        if holder is not None and holder != checkpoint_id and holder >= self._settled:
            msg = (
                f"Too many ongoing snapshots: {transactional_id} still belongs to checkpoint {holder} "
                f"(settled up to {self._settled}) when checkpoint {checkpoint_id} begins; pool size {len(ids)}"
            )
            raise ProducersPoolEmpty(msg)
        self._holders[transactional_id] = checkpoint_id
        return transactional_id

    def settle(self, checkpoint_id: int) -> None:
        """Every checkpoint up to this one is complete and its transactions are committed; never goes back."""
        self._settled = max(self._settled, checkpoint_id)
