"""The group's offsets as evidence of a commit: they moved with the transaction or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, RetriableWireError, check
from sparkapp.clients.transactions.requests import KafkaWire
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition

_PAUSE = 0.1
_UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
_TAKEN_OVER = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"}
"""Another driver has initialised the id meanwhile, or the brokers have ended the transaction."""
_GONE, _GONE_CODE = "UNKNOWN_TOPIC_OR_PARTITION", 3
_YOUNG_SECONDS = 5.0
"""A coordinator may not have heard of a new topic yet."""
_REQUEST_SECONDS = 3.0
"""Seconds until a request without an answer is sent again."""


class Evidence(Protocol):
    """The offsets of the job's group that no open transaction can still change."""

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        """Next offset of each partition, with its mark; partitions without a committed offset are absent.

        :raises KafkaAccessError: no stable answer in time.
        """
        ...


class GroupOffsetsEvidence:
    """Asks the group coordinator for stable offsets, and waits while an open transaction holds some of them.

    Uses the wire protocol. confluent_kafka reads beyond the end of an offset's text that a Java client wrote: the mark
    would contain the memory behind it.

    :param config: librdkafka properties of the cluster; consumer properties are ignored.
    :param stable: whether to wait; otherwise the answer has the offsets that are committed now.
    :param confirm_as: a transactional id of the caller's own. The coordinator is believed after it has written offsets
        in a transaction of this id, which is aborted. A broker that has been replaced and does not know it answers
        reads from its memory, stable reads too. Its writes are not acknowledged (ADR 44).
    :param connection: to the cluster, which stays open; None for a connection of each call.
    :param timeout: seconds for one call.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        group_id: str,
        stable: bool = True,
        confirm_as: str = "",
        connection: KafkaConnection | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._config = dict(config)
        self._confirm_as = confirm_as
        self._group_id = group_id
        self._stable = stable
        self._connection = connection
        self._timeout = timeout

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        """See :meth:`Evidence.committed`.

        :returns: also empty where none of the partitions exists.
        :raises KafkaUnreachable: no stable answer in time. :raises AuthenticationFailed: the credentials were refused.
        :raises AuthorizationFailed: READ is missing on the group, or DESCRIBE on a topic.
        """
        if not partitions:
            return {}
        connection = self._connection or KafkaConnection(self._config)
        deadline = Deadline.after(self._timeout)
        try:
            return connection.run(deadline, lambda: self._ask(connection, partitions, deadline))
        finally:
            if self._connection is None:
                connection.close()

    async def _ask(
        self, connection: KafkaConnection, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, GroupOffset]:
        wire = KafkaWire(connection)
        node: Any = None
        young: Deadline | None = None
        while True:
            limit = Deadline.after(deadline.bound(_REQUEST_SECONDS))
            try:
                if node is None:
                    node = await self._coordinator(wire, partitions, limit)
                return await wire.committed_offsets(self._group_id, partitions, limit, stable=self._stable, node=node)
            except RefusedWireError as error:
                if error.name not in _TAKEN_OVER:
                    raise KafkaAccessError(str(error)) from error
                problem: Exception = error
            except RetriableWireError as error:
                problem = error
                if error.name != _UNSTABLE:
                    node = None
                young = (young or Deadline.after(deadline.bound(_YOUNG_SECONDS))) if error.name == _GONE else None
                if young is not None and young.expired:
                    return {}  # no partition of them exists: their offsets went with them
            if deadline.expired:
                msg = f"no stable committed offsets of group {self._group_id} within {self._timeout:.0f} s: {problem}"
                raise KafkaUnreachable(msg) from problem
            # Some of these answers come at once, although they depend on other brokers.
            await connection.sleep(deadline.bound(_PAUSE))

    async def _coordinator(self, wire: KafkaWire, partitions: Sequence[TopicPartition], limit: Deadline) -> Any:
        """The group's coordinator, after a write where that is asked for.

        :raises RetriableWireError: it could not write, or may not have.
        """
        if not self._confirm_as:
            return await wire.group_coordinator(self._group_id, limit)
        wire.forget_coordinators([self._confirm_as])
        producer_id, epoch = await wire.init_producer_id(self._confirm_as, limit)
        transaction = EndTxn(
            transactional_id=self._confirm_as, producer_id=producer_id, producer_epoch=epoch, commit=False
        )
        await wire.add_offsets(transaction, self._group_id, limit)
        node = await wire.group_coordinator(self._group_id, limit)
        offsets = dict.fromkeys(partitions, 0)
        codes = await wire.commit_offsets(transaction, self._group_id, offsets, "", limit, node=node)
        await wire.end_txn(transaction, limit)
        # Of partitions that exist no longer nothing is written. Any other error than that comes first.
        check(
            min(codes.values(), key=lambda code: (code != 0, code == _GONE_CODE)),
            f"confirming the coordinator of group {self._group_id}",
        )
        return node
