"""The group's offsets as evidence of a commit: they moved with the transaction or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, RetriableWireError
from sparkapp.clients.transactions.requests import KafkaWire
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition

_PAUSE = 0.1
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
    :param timeout: seconds for one call.
    """

    def __init__(self, config: Mapping[str, str], *, group_id: str, stable: bool = True, timeout: float = 30.0) -> None:
        self._config = dict(config)
        self._group_id = group_id
        self._stable = stable
        self._timeout = timeout

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        """See :meth:`Evidence.committed`. Opens a connection for each of the few calls.

        :raises KafkaUnreachable: no stable answer in time. :raises AuthenticationFailed: the credentials were refused.
        :raises AuthorizationFailed: READ is missing on the group, or DESCRIBE on a topic.
        """
        if not partitions:
            return {}
        connection = KafkaConnection(self._config)
        deadline = Deadline.after(self._timeout)
        try:
            return connection.run(deadline, lambda: self._ask(connection, partitions, deadline))
        finally:
            connection.close()

    async def _ask(
        self, connection: KafkaConnection, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, GroupOffset]:
        wire = KafkaWire(connection)
        while True:
            limit = Deadline.after(deadline.bound(_REQUEST_SECONDS))
            try:
                return await wire.committed_offsets(self._group_id, partitions, limit, stable=self._stable)
            except RefusedWireError as error:
                raise KafkaAccessError(str(error)) from error
            except RetriableWireError as error:
                if deadline.expired:
                    msg = f"no stable committed offsets of group {self._group_id} within {self._timeout:.0f} s: {error}"
                    raise KafkaUnreachable(msg) from error
            # Some of these answers come at once, although they depend on other brokers.
            await connection.sleep(deadline.bound(_PAUSE))
