"""The checkpoint that holds each transactional id, so that no transaction of the document is aborted.

A new producer of an id aborts its open transaction, and the triple in a checkpoint document cannot be committed then.
So an id is used again only when a newer checkpoint than its holder is settled. By then no document names the
transaction (case T15).
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkapp.model.errors import InvalidArgument, ProducersPoolEmpty


def slot_of(checkpoint_id: int, pool_size: int) -> int:
    """The number of a checkpoint's id in a subtask's pool: ``checkpoint mod pool``, in both namings.

    :param pool_size: ids of a subtask.
    """
    return checkpoint_id % pool_size


class Slots:
    """Holders of the ids in a process; owned by its producer pool, called by writers that begin a transaction."""

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self._settled = -1

    def take(self, ids: Sequence[str], checkpoint_id: int) -> str:
        """The id of a subtask's transaction in a checkpoint, by :func:`slot_of`.

        A retry of the same checkpoint gets the same id.

        :param ids: the subtask's pool, in order.
        :raises ProducersPoolEmpty: the id's holder is not settled, or is the newest settled checkpoint. The current
            document still names that checkpoint's transactions (T01, T08).
        """
        if checkpoint_id < 0 or not ids:
            msg = f"no slot for checkpoint {checkpoint_id} among {len(ids)} ids"
            raise InvalidArgument(msg)
        transactional_id = ids[slot_of(checkpoint_id, len(ids))]
        holder = self._holders.get(transactional_id)
        if holder is not None and holder != checkpoint_id and holder >= self._settled:
            msg = (
                f"Too many ongoing snapshots: {transactional_id} still belongs to checkpoint {holder} "
                f"(settled up to {self._settled}) when checkpoint {checkpoint_id} begins; pool size {len(ids)}"
            )
            raise ProducersPoolEmpty(msg)
        self._holders[transactional_id] = checkpoint_id
        return transactional_id

    def is_free(self, ids: Sequence[str], checkpoint_id: int) -> bool:
        """Whether :meth:`take` would give the id whatever process has held it, so that a producer may be opened ahead.

        The checkpoint that used the id last is older than the newest settled checkpoint: no document names it.
        """
        return checkpoint_id - len(ids) < self._settled

    def settle(self, checkpoint_id: int) -> None:
        """Records that every checkpoint up to this number is complete and committed. A lower number has no effect."""
        self._settled = max(self._settled, checkpoint_id)
