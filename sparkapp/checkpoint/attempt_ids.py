"""The transactional ids that an attempt writes under, and what its documents say of them. Values and pure functions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import (
    NO_SLOTS,
    SlotBounds,
    TransactionNaming,
    is_first_start,
    pool_of_subtask,
)
from sparkapp.model.checkpoint.slots import slot_of
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint
from sparkapp.sink.ending.log_scope import sink_topics


@dataclass(frozen=True, slots=True)
class AttemptIds:
    """Made by the checkpoint coordinator at the attempt's start, and again when the attempt is rescaled in place.

    :param next_free: base of the ids by hint.
    :param hint: and ``bounds``: of the documents of checkpoints that are written under these ids.
    :param transactional: whether there are any; else the documents forget those of earlier attempts.
    """

    next_free: int
    hint: TransactionalIdHint
    bounds: SlotBounds
    transactional: bool = True

    @classmethod
    def of(cls, spec: JobSpec, *, hint: TransactionalIdHint, bounds: SlotBounds) -> AttemptIds:
        """The ids that follow from a hint and bounds: those restored, or those of the parallelism before a rescale.

        So repeated checkpoints write the same hint (H10), and a rescale in place moves ids as a new attempt does.
        """
        sink, next_free = spec.sink, hint.next_free_transactional_id
        if not sink.delivery_guarantee.transactional:
            # Recovery has settled or aborted all open transactions of previous attempts (H16, T10).
            return cls(next_free, FIRST_HINT, NO_SLOTS, transactional=False)
        if sink.transaction_naming is TransactionNaming.HINT:
            hint = hint.advance(parallelism=spec.parallelism, pool_size=sink.producers_pool_size)
        else:
            bounds = bounds.with_attempt(parallelism=spec.parallelism, pool_size=sink.producers_pool_size)
        return cls(next_free, hint, bounds)

    def begun(self, document: CheckpointDocument, spec: JobSpec) -> CheckpointDocument:
        """The document before the first checkpoint: the next attempt knows every id that this attempt may use.

        It knows them by the slots, or by ``transactional`` where it begins with the first hint.
        """
        if not self.transactional:
            return replace(document, hint=self.hint, slots=self.bounds, transactional=False, sink_topics=frozenset())
        return replace(
            document, slots=self.bounds, transactional=is_first_start(document.hint, self.bounds),
            sink_topics=sink_topics(spec),
        )  # fmt: skip

    def of_checkpoint(self, spec: JobSpec, checkpoint_id: int, subtasks: Collection[int]) -> tuple[str, ...]:
        """The ids that these subtasks write a checkpoint under; none without transactions."""
        sink = spec.sink
        if not self.transactional:
            return ()
        return tuple(
            pool_of_subtask(
                sink.transaction_naming, prefix=sink.transactional_id_prefix, subtask=subtask,
                parallelism=spec.parallelism, pool_size=sink.producers_pool_size, next_free=self.next_free,
            )[slot_of(checkpoint_id, sink.producers_pool_size)]
            for subtask in subtasks
        )  # fmt: skip
