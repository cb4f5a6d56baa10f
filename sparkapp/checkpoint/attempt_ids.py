"""The transactional ids that an attempt writes under, and what its documents say of them. Values and pure functions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sparkapp.model.checkpoint.naming import NO_SLOTS, SlotBounds, TransactionNaming, pool_of_subtask
from sparkapp.model.checkpoint.slots import slot_of
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint


@dataclass(frozen=True, slots=True)
class AttemptIds:
    """Made by the checkpoint coordinator at the attempt's start, and again when the attempt is rescaled in place.

    :param next_free: base of the ids by hint.
    :param hint: and ``bounds``: of the documents of checkpoints that are written under these ids.
    """

    next_free: int
    hint: TransactionalIdHint
    bounds: SlotBounds

    @classmethod
    def of(cls, spec: JobSpec, *, hint: TransactionalIdHint, bounds: SlotBounds) -> AttemptIds:
        """The ids that follow from a hint and bounds: those restored, or those of the parallelism before a rescale.

        So repeated checkpoints write the same hint (H10), and a rescale in place moves ids as a new attempt does.
        """
        sink, next_free = spec.sink, hint.next_free_transactional_id
        if sink.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            # Recovery has settled or aborted all open transactions of previous attempts (H16, T10).
            return cls(next_free, FIRST_HINT, NO_SLOTS)
        if sink.transaction_naming is TransactionNaming.HINT:
            hint = hint.advance(parallelism=spec.parallelism, pool_size=sink.producers_pool_size)
        else:
            bounds = bounds.with_attempt(parallelism=spec.parallelism, pool_size=sink.producers_pool_size)
        return cls(next_free, hint, bounds)

    def of_checkpoint(self, spec: JobSpec, checkpoint_id: int, subtasks: Collection[int]) -> tuple[str, ...]:
        """The ids that these subtasks write a checkpoint under."""
        sink = spec.sink
        return tuple(
            pool_of_subtask(
                sink.transaction_naming, prefix=sink.transactional_id_prefix, subtask=subtask,
                parallelism=spec.parallelism, pool_size=sink.producers_pool_size, next_free=self.next_free,
            )[slot_of(checkpoint_id, sink.producers_pool_size)]
            for subtask in subtasks
        )  # fmt: skip
