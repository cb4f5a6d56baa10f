"""How a job's group offsets move outside its subtasks' transactions: one choice, for the driver and for tests."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.checkpoint.claim import Claim
from sparkapp.clients.transactions.connection import KafkaConnection
from sparkapp.model.checkpoint.offset_commit import OffsetSender
from sparkapp.model.job.spec import Job
from sparkapp.sink.offset_transactions import OffsetTransactions
from sparkapp.source.offset_committer import OffsetCommitCallback, OffsetCommitter
from sparkapp.source.plain_offsets import PlainOffsets


def offset_committer(
    job: Job,
    config: Mapping[str, str],
    claim: Claim,
    callback: OffsetCommitCallback,
    connection: KafkaConnection | None = None,
) -> OffsetCommitter:
    """Under ExactlyOnce no offset moves without a fence; otherwise the user may have no right to transactions.

    With a cluster of the sink's own, the cluster of the source has no transactions, and the group is no evidence of any
    (ADR 92).

    :param config: the job's consumer configuration, with the cluster's properties.
    :param connection: to the cluster, which the committer may take over; None for a new connection.
    """
    sink, sender = job.spec.sink, None
    if sink.delivery_guarantee.transactional and sink.kafka is None:
        sender = OffsetTransactions(
            connection or KafkaConnection(config), prefix=sink.transactional_id_prefix,
            group_id=job.spec.source.group_id, require_claim=claim.require,
        )  # fmt: skip
    chosen: OffsetSender = sender or PlainOffsets(config, claim.require)
    return OffsetCommitter(chosen, callback)
