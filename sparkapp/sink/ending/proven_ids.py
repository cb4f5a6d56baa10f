"""Ids whose last transactions are proven to have ended, so that their next producers may write (ADR 68)."""

from __future__ import annotations

from collections.abc import Collection

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription, TransactionState
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.proven_ends import Ended, EndingClient, ProvenEnds, aborted_by_init

_ENDED = {TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT}


class ProvenIds:
    """Used by a producer pool around each initialisation of an id, and behind each commit of its own.

    The driver proves its commits before an id is used again. Aborts of failed tasks are proven here alone.

    :param commits_itself: whether the pool's producers commit, and not the driver.
    """

    def __init__(self, client: EndingClient, scope: LogScope, *, commits_itself: bool) -> None:
        self._client = client
        self._ends = ProvenEnds(client, scope)
        self._commits_itself = commits_itself

    def before_init(self, transactional_id: str, *, timeout: float) -> TransactionDescription | None:
        """The id's description before its initialisation, which erases how its last transaction ended.

        :param timeout: seconds.
        :raises KafkaUnreachable: the commit of the producer before is not proven in time.
        """
        deadline = Deadline.after(timeout)
        before = self._client.describe([transactional_id], deadline=deadline).get(transactional_id)
        if before is not None and self._commits_itself and before.state in _ENDED:
            end = EndTxn(
                transactional_id=transactional_id, producer_id=before.producer_id,
                producer_epoch=before.producer_epoch, commit=True,
            )  # fmt: skip
            # The instance before may be alive, if nobody has heard of it for long.
            self._ends.require([Ended(end=end, epoch=before.producer_epoch, fence=True)], deadline=deadline)
        return before

    def after_init(
        self,
        transactional_id: str,
        before: TransactionDescription | None,
        now: TransactionDescription,
        *,
        timeout: float,
    ) -> None:
        """Returns when nothing of earlier producers is open in a partition.

        :param before: of :meth:`before_init`. :param now: the id's description behind its initialisation.
        :raises KafkaUnreachable: a partition has no leader in time.
        """
        if before is None:
            return
        ended = aborted_by_init(
            transactional_id, before, now.producer_id, now.producer_epoch,
            was_proven=before.state is TransactionState.COMPLETE_COMMIT,
        )  # fmt: skip
        if ended is not None:
            self._ends.require([ended], deadline=Deadline.after(timeout))

    def committed(self, end: EndTxn, partitions: Collection[TopicPartition], group_id: str, deadline: Deadline) -> None:
        """Returns when the leaders have the markers of a commit.

        :param partitions: with records of the transaction. :param group_id: whose offsets are in it.
        :raises KafkaUnreachable: a partition has no leader in time.
        """
        group = self._client.logs.group_partition(group_id, deadline=deadline)
        written = frozenset(partitions) | (frozenset() if group is None else frozenset([group]))
        self._ends.require([Ended(end=end, epoch=end.producer_epoch, partitions=written)], deadline=deadline)
