"""Recovery's view of the sink's control plane: settle what a document names, abort what no document names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.recovery import TransactionControl
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointStoreUnavailable,
    CommitOutcomeUnknown,
    KafkaSparkJobError,
)
from sparkapp.model.job import Job
from sparkapp.model.semantic import Semantic
from sparkapp.model.transaction_naming import is_first_start, offsets_id
from sparkapp.sink.committer import KafkaCommitter, Settled
from sparkapp.sink.lingering import abort_lingering, find_transactions
from sparkapp.sink.orphans import OpenNow, OrphanSweep
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.sink.witness import GroupOffsetsWitness

LOG = logging.getLogger(__name__)


class KafkaTransactionControl:
    """What a job's recovery asks of its transactions; made by the driver once an attempt.

    :param client: the sink's control plane. :param config: the job's consumer configuration, for the witness.
    :param claim: read before each fencing; nothing else stops a driver that was frozen after it claimed the document.
    """

    def __init__(self, job: Job, client: TransactionClient, config: Mapping[str, str], claim: Claim) -> None:
        self._job = job
        self._client = client
        self._config = config
        self._claim = claim
        self._aborted_early = 0

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        if self._may_have_transactions(document):
            # Before the evidence is read: what an earlier attempt's driver sends from now on is refused.
            self._client.fence_all(offsets_id(prefix) for prefix in document.prefixes)
        if not document.committables:
            return ()
        witness = None
        if document.witness_group:
            witness = GroupOffsetsWitness(self._config, group_id=document.witness_group)
        # A lingering transaction with offsets of the same partitions would make the witness wait for it.
        committer = KafkaCommitter(
            self._client,
            witness,
            describer=self._client,
            job_uid=self._job.uid,
            before_witness=partial(self._abort_early, document),
        )
        return committer.commit(document.committables, whole=not document.aligned)

    def _abort_early(self, document: CheckpointDocument) -> None:
        self._aborted_early = self.abort_lingering(document)

    def abort_lingering(self, document: CheckpointDocument) -> int:
        sink = self._job.spec.sink
        if not self._may_have_transactions(document):
            return 0
        report = abort_lingering(
            self._client, document.prefixes, hint=document.hint, slots=document.slots,
            parallelism=self._job.spec.parallelism, pool_size=sink.producers_pool_size,
            before_fencing=self._claim.require_no_successor,
        )  # fmt: skip
        return len(report.ids) + self._aborted_early

    def orphan_sweep(
        self,
        document: Callable[[], CheckpointDocument],
        in_use: Callable[[], Collection[str]],
        observed: Callable[[OpenNow | None], None],
    ) -> OrphanSweep:
        """What aborts orphans while the attempt runs; made by the driver once recovery is over.

        :param document: the last one written. :param in_use: :meth:`CheckpointCoordinator.ids_in_use`.
        :param observed: told what is open after each sweep.
        """
        spec = self._job.spec

        def find(deadline: Deadline) -> list[str]:
            last = document()
            found, _ = find_transactions(
                self._client, [last.prefix], hint=last.hint, slots=last.slots, parallelism=spec.parallelism,
                pool_size=spec.sink.producers_pool_size, deadline=deadline,
            )  # fmt: skip
            own = offsets_id(last.prefix)  # of the commit of offsets that may be under way; 10 s end it by themselves
            return [one for one, state in found.items() if state.open and one != own]

        return OrphanSweep(self._client, find=find, in_use=in_use, require_claim=self._claim.require, observed=observed)

    def _may_have_transactions(self, document: CheckpointDocument) -> bool:
        """A job without transactions may have no right to look for them."""
        unused = is_first_start(document.hint, document.slots) and not document.transactional
        return self._job.spec.sink.semantic is Semantic.EXACTLY_ONCE or not unused


def leave_nothing_open(
    control: TransactionControl, claim: Claim, document: CheckpointDocument, error: Exception
) -> None:
    """Best effort of a driver that is to go and cannot drain: a deleted job has no next attempt that would do it.

    Its ConfigMaps, rights and executors go at the same time as its driver. What the last document names is final and is
    committed, the rest is aborted, so that no reader waits for the transactions' time-out. Left to a next attempt where
    one may have begun, or where it is not known what the document is.

    :param claim: an attempt that another one has superseded leaves everything to it.
    :param document: the last one that this attempt has written.
    :param error: what it could not go on with.
    """
    if isinstance(error, CheckpointConflict | CheckpointStoreUnavailable | CommitOutcomeUnknown):
        return
    try:
        claim.require_no_successor()
        control.settle(document)
        aborted = control.abort_lingering(document)
        LOG.info("%d transaction(s) of an attempt that could not drain are aborted", aborted)
    except KafkaSparkJobError as problem:
        LOG.warning("transactions may be left open: %s", problem.message)
