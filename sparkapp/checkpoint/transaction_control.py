"""Recovery's view of the sink's control plane: settle what a document names, abort what no document names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.job import Job
from sparkapp.model.semantic import Semantic
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.sink.committer import KafkaCommitter, Settled
from sparkapp.sink.lingering import abort_lingering
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.sink.witness import GroupOffsetsWitness


class KafkaTransactionControl:
    """What a job's recovery asks of its transactions; made by the driver once an attempt.

    :param client: the sink's control plane. :param config: the job's consumer configuration, for the witness.
    """

    def __init__(self, job: Job, client: TransactionClient, config: Mapping[str, str]) -> None:
        self._job = job
        self._client = client
        self._config = config
        self._aborted_early = 0

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        if not document.committables:
            return ()
        witness = None
        if document.witness_group:
            witness = GroupOffsetsWitness(self._config, group_id=document.witness_group)
        # A lingering transaction with offsets of the same partitions would make the witness wait for it.
        prefixes = (document.prefix, *document.former_prefixes)
        committer = KafkaCommitter(
            self._client,
            witness,
            job_uid=self._job.uid,
            before_witness=lambda: self._abort_early(prefixes, document.hint),
        )
        return committer.commit(document.committables)

    def _abort_early(self, prefixes: Sequence[str], hint: TransactionalIdHint) -> None:
        self._aborted_early = self.abort_lingering(prefixes, hint)

    def abort_lingering(self, prefixes: Sequence[str], hint: TransactionalIdHint) -> int:
        if self._job.spec.sink.semantic is not Semantic.EXACTLY_ONCE and hint.last_parallelism == 0:
            return 0
        report = abort_lingering(
            self._client, prefixes, hint=hint, parallelism=self._job.spec.parallelism,
            pool_size=self._job.spec.sink.producers_pool_size,
        )  # fmt: skip
        return len(report.ids) + self._aborted_early
