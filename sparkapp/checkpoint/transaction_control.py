"""Recovery's view of the sink's control plane: settle the document's transactions, abort all others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.recovery.recovery import TransactionControl
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import is_first_start, local_id, offsets_id
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointStoreUnavailable,
    CommitOutcomeUnknown,
)
from sparkapp.model.job.spec import Job
from sparkapp.sink.committer import KafkaCommitter, Settled
from sparkapp.sink.lingering import abort_lingering, find_transactions
from sparkapp.sink.orphans import OpenNow, OrphanSweep
from sparkapp.sink.producers.reusable_producers import ReusableProducers

LOG = logging.getLogger(__name__)

_FENCE_SECONDS = 120.0
"""For the ids of all subtasks; the next attempt continues."""


class OwnTransactions(Protocol):
    """What the sweep asks of a coordinator, of either pace."""

    @property
    def document(self) -> CheckpointDocument: ...

    def ids_in_use(self) -> Collection[str]: ...

    @property
    def reusable(self) -> ReusableProducers: ...


class KafkaTransactionControl:
    """Settles and aborts the transactions of a job; made by the driver once an attempt.

    :param client: the sink's control plane. :param config: the job's consumer configuration, for the group's offsets.
    :param claim: read before each fencing; nothing else stops a driver that was paused after it claimed the document.
    """

    def __init__(self, job: Job, client: TransactionClient, config: Mapping[str, str], claim: Claim) -> None:
        self._job = job
        self._client = client
        self._config = config
        self._claim = claim
        self._aborted_early = 0

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        """See :meth:`TransactionControl.settle`.

        :raises CheckpointError: another attempt owns the job, or that is not known.
        :raises KafkaAccessError: not every id is fenced in time.
        :raises CommitOutcomeUnknown: no deciding answer to EndTxn in time.
        """
        if self._may_have_transactions(document):
            # Before the evidence is read: from now on brokers refuse requests of previous attempts' drivers.
            self._client.fence_all(offsets_id(prefix) for prefix in document.prefixes)
        if document.local is not None:
            # Idle ids, too: an instance that was granted may begin its next transaction whenever it continues.
            self._claim.require_no_successor()
            ids = (
                local_id(prefix, subtask) for prefix in document.prefixes for subtask in range(document.slots.subtasks)
            )
            self._client.fence_all(ids, deadline=Deadline.after(_FENCE_SECONDS))
        if not document.committables:
            return ()
        evidence = None
        if document.evidence_group:
            evidence = GroupOffsetsEvidence(
                self._config, group_id=document.evidence_group, confirm_as=offsets_id(document.prefix)
            )
        # The evidence would wait for a lingering transaction with offsets of the same partitions.
        committer = KafkaCommitter(
            self._client,
            evidence,
            describer=self._client,
            restored=True,
            job_uid=self._job.uid,
            before_evidence=partial(self._abort_early, document),
        )
        return committer.commit(document.committables, whole=not document.aligned)

    def _abort_early(self, document: CheckpointDocument) -> None:
        self._aborted_early = self.abort_lingering(document)

    def abort_lingering(self, document: CheckpointDocument) -> int:
        """See :meth:`TransactionControl.abort_lingering`; counts those that :meth:`settle` has aborted, too."""
        sink = self._job.spec.sink
        if not self._may_have_transactions(document):
            return 0
        aborted = abort_lingering(
            self._client, document.prefixes, hint=document.hint, slots=document.slots,
            parallelism=self._job.spec.parallelism, pool_size=sink.producers_pool_size,
            retired=() if document.committables else document.previous_prefixes,
            before_fencing=self._claim.require_no_successor,
        )  # fmt: skip
        return len(aborted) + self._aborted_early

    def fence(self, ids: Collection[str]) -> None:
        """Ends what the subtasks of a running attempt have left open; called by its engine when they are lost.

        :raises CheckpointError: another attempt owns the job, or that is not known; nothing was fenced.
        :raises KafkaAccessError: not all are fenced.
        """
        self._claim.require_no_successor()
        self._client.fence_all(ids)

    def orphan_sweep(self, coordinator: OwnTransactions, observed: Callable[[OpenNow | None], None]) -> OrphanSweep:
        """The sweep that aborts orphan transactions while the attempt runs; made by the driver after recovery.

        :param observed: gets the open transactions after each sweep.
        """
        spec = self._job.spec

        def find(deadline: Deadline) -> list[str]:
            last = coordinator.document
            found = find_transactions(
                self._client, [last.prefix], hint=last.hint, slots=last.slots, parallelism=spec.parallelism,
                pool_size=spec.sink.producers_pool_size, deadline=deadline,
            )  # fmt: skip
            own = offsets_id(last.prefix)  # A commit of offsets may be under way; it ends by itself after 10 s.
            return [
                transactional_id for transactional_id, state in found.items() if state.open and transactional_id != own
            ]

        return OrphanSweep(
            self._client, find=find, in_use=coordinator.ids_in_use, retire=coordinator.reusable.retire,
            require_claim=self._claim.require, observed=observed,
        )  # fmt: skip

    def _may_have_transactions(self, document: CheckpointDocument) -> bool:
        """A job without transactions may have no permission to list them."""
        unused = is_first_start(document.hint, document.slots) and not document.transactional
        return self._job.spec.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE or not unused


def leave_nothing_open(
    control: TransactionControl, claim: Claim, document: CheckpointDocument, error: Exception
) -> None:
    """Best effort of a driver that must stop and cannot drain, where no attempt may follow soon that settles the job.

    The job is deleted, or waits for a person or for room. In the first case Kubernetes deletes ConfigMaps, permissions
    and executors of the job at the same time as its driver. Transactions of the last document are final and are
    committed. All others are aborted, so that no reader waits for their time-out. Nothing is done where a next attempt
    may have begun, or where the document is unknown.

    :param claim: a superseded attempt leaves everything to its successor.
    :param document: the last document that this attempt wrote.
    :param error: the cause of the stop.
    """
    if isinstance(error, CheckpointConflict | CheckpointStoreUnavailable | CommitOutcomeUnknown):
        return
    try:
        claim.require_no_successor()
        control.settle(document)
        aborted = control.abort_lingering(document)
        LOG.info("the attempt could not drain: %d transaction(s) aborted", aborted)
    except Exception as problem:  # must not replace the first error
        LOG.warning("transactions may still be open: %s", problem)
