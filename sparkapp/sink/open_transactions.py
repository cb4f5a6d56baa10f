"""The last look at pre-committed transactions, before a document makes them final."""

from __future__ import annotations

from collections.abc import Sequence

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import TransactionFenced
from sparkapp.sink.transaction_describer import TransactionDescriber

_SECONDS = 60.0
"""As long as a commit would wait for the coordinators; after that the attempt ends, and nothing was final."""


class OpenTransactions:
    """Asks the coordinators about a whole checkpoint; called by the checkpoint coordinator from one thread.

    Each subtask has asked about its own transaction when it pre-committed (:meth:`ProducerPool.verify`). The checkpoint
    waits for the last subtask, and until then a transaction can reach its time-out, or lose its id to a second task of
    the same subtask. A document that names it would be part committed.
    """

    def __init__(self, client: TransactionDescriber) -> None:
        self._client = client

    def require(self, committables: Sequence[KafkaCommittable]) -> None:
        """Returns if every transaction is still open and still its writer's; one request a coordinator.

        :raises TransactionFenced: one is not; nothing is final yet, the attempt reads and writes the ranges again.
        :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: DESCRIBE is missing on an id.
        """
        ids = [one.transactional_id for one in committables]
        found = self._client.describe(ids, deadline=Deadline.after(_SECONDS))
        for one in committables:
            now = found.get(one.transactional_id)
            if now is None or not now.is_open_with(one.producer_id, one.producer_epoch):
                msg = (
                    f"checkpoint {one.checkpoint_id}: {one.transactional_id} was pre-committed with producer"
                    f" {one.producer_id} epoch {one.producer_epoch}; its coordinator now says {now}"
                )
                remedy = (
                    "nothing, the job writes the checkpoint again; where this repeats, a subtask takes longer than"
                    " spec.sink.transactionTimeoutSeconds: raise it, or lower spec.source.maxOffsetsPerCheckpoint"
                )
                raise TransactionFenced(msg, remedy=remedy)
