"""Group offsets of jobs with transactions: the driver's own transactions, which hold offsets alone.

A plain OffsetCommit of a superseded driver may arrive whenever its process resumes. It would set back offsets and marks
that are evidence of transactions. A transaction can be fenced: each attempt initialises the id after it has claimed the
document. Brokers then accept no further request of an earlier attempt. ADR 25 has the proof.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, RetriableWireError, check
from sparkapp.clients.transactions.requests import KafkaWire
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.checkpoint.offset_commit import Refusal
from sparkapp.model.errors import KafkaAccessError, KafkaSparkJobError, KafkaUnreachable, TransactionFenced
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

_SECONDS = 10.0
"""Seconds for a transaction, and its time-out on the brokers; a retry begins a new transaction."""
_PAUSE = 0.02
_IN_TRANSITION = {
    "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
}  # fmt: skip
"""Answers of a broker that has not done what was asked. Where there is no answer it may have, or may do it later."""
_FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"}
"""Somebody else has ended the transaction: another driver, the time-out, a person."""
_UNKNOWN_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"

Answer = TypeVar("Answer")


class OffsetTransactions:
    """Commits offsets in transactions: each commit has its own transaction and producer epoch.

    Each call initialises, then reads the claim, then writes, in this order, with nothing kept in between. So a writer
    has seen its own claim after it was the last to initialise the id. A later attempt claims before it initialises,
    which fences the writer. No request of an earlier transaction can reach a later transaction, whose epoch differs.

    :param connection: to the cluster; closed with this.
    :param prefix: transactional id prefix of the job. :param group_id: whose offsets move.
    :param require_claim: raises unless this attempt owns the job (``checkpoint.claim``).
    """

    def __init__(
        self, connection: KafkaConnection, *, prefix: str, group_id: str, require_claim: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._wire = KafkaWire(self._connection)
        self._id = offsets_id(prefix)
        self._group_id = group_id
        self._require_claim = require_claim

    def send(self, offsets: Mapping[TopicPartition, int], mark: str) -> dict[TopicPartition, Refusal]:
        """See :meth:`OffsetSender.send`."""
        deadline = Deadline.after(_SECONDS)
        try:
            producer_id, epoch = self._connection.run(deadline, lambda: self._initialised(deadline))
            self._require_claim()
            commit = EndTxn(transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, commit=True)
            return self._connection.run(deadline, lambda: self._transact(commit, offsets, mark, deadline))
        except TransactionFenced as error:
            # A superseded driver resumed, and will find out; or a later attempt superseded this driver.
            return dict.fromkeys(offsets, Refusal(error, may_pass=True))
        except KafkaUnreachable as error:
            return dict.fromkeys(offsets, Refusal(error, may_pass=True))
        except KafkaSparkJobError as error:
            return dict.fromkeys(offsets, Refusal(error))

    def close(self) -> None:
        self._connection.close()

    async def _initialised(self, deadline: Deadline) -> tuple[int, int]:
        return await self._answered(lambda: self._wire.init_producer_id(self._id, deadline), deadline, again=True)

    async def _transact(
        self, commit: EndTxn, offsets: Mapping[TopicPartition, int], mark: str, deadline: Deadline
    ) -> dict[TopicPartition, Refusal]:
        group = self._group_id
        await self._answered(lambda: self._wire.add_offsets(commit, group, deadline), deadline)
        refused = await self._answered(lambda: self._offsets(commit, offsets, mark, deadline), deadline)
        # Repeated, it says the same: no other transaction begins under this epoch.
        await self._answered(lambda: self._wire.end_txn(commit, deadline), deadline, again=True)
        return refused

    async def _offsets(
        self, commit: EndTxn, offsets: Mapping[TopicPartition, int], mark: str, deadline: Deadline
    ) -> dict[TopicPartition, Refusal]:
        """:raises RefusedWireError: and RetriableWireError: for an answer that is not about a partition alone."""
        codes = await self._wire.commit_offsets(commit, self._group_id, offsets, mark, deadline)
        refused = {}
        for partition, code in codes.items():
            doing = f"committing the group's offset of {partition}"
            try:
                check(code, doing)
            except RetriableWireError as error:
                if error.name != _UNKNOWN_PARTITION:
                    raise
                refused[partition] = Refusal(KafkaAccessError(str(error)), may_pass=True, is_gone=True)
            except RefusedWireError as error:
                if error.name in _FENCED:
                    raise
                refused[partition] = Refusal(KafkaAccessError(str(error)))
            except KafkaAccessError as error:
                refused[partition] = Refusal(error)
        return refused

    async def _answered(
        self, attempt: Callable[[], Awaitable[Answer]], deadline: Deadline, *, again: bool = False
    ) -> Answer:
        """
        :param again: whether the request may be repeated where the first request has no answer.
        """
        while True:
            try:
                return await attempt()
            except RefusedWireError as error:
                kind = TransactionFenced if error.name in _FENCED else KafkaAccessError
                raise kind(f"committing offsets of group {self._group_id}: {error}") from error
            except RetriableWireError as error:
                if deadline.expired or not (again or error.name in _IN_TRANSITION):
                    msg = f"offsets of group {self._group_id} may not have been committed: {error}"
                    raise KafkaUnreachable(msg) from error
                if error.name != "CONCURRENT_TRANSACTIONS":
                    self._wire.forget_coordinators([self._id])
            await self._connection.sleep(deadline.bound(_PAUSE))
