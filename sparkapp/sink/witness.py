"""The witness of a commit: the group's offsets, which moved with the transaction or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition
from sparkapp.model.settlement import GroupOffset
from sparkapp.sink.kafka_connection import KafkaConnection, RefusedWireError, RetriableWireError
from sparkapp.sink.kafka_wire import KafkaWire

_PAUSE = 0.1
_REQUEST_SECONDS = 3.0
"""One request that has no answer by then is sent again."""


class Witness(Protocol):
    """Tells the offsets of the job's group that no open transaction can still change."""

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        """Next offset a partition, with its mark; partitions without a committed offset are absent.

        :raises KafkaAccessError: no stable answer in time.
        """
        ...


class GroupOffsetsWitness:
    """Asks the group coordinator for stable offsets, waiting while an open transaction holds some of them.

    On the wire and not by confluent_kafka, which reads beyond the end of a text that another kind of client wrote
    beside an offset: what follows it in memory would be part of the mark.

    :param config: librdkafka properties of the cluster; others, a consumer's for instance, are ignored.
    :param stable: whether to wait; otherwise the offsets are what is committed now, whatever is open.
    :param timeout: seconds for one question.
    """

    def __init__(self, config: Mapping[str, str], *, group_id: str, stable: bool = True, timeout: float = 30.0) -> None:
        self._config = dict(config)
        self._group_id = group_id
        self._stable = stable
        self._timeout = timeout

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        """See :meth:`Witness.committed`. A connection for each question, of which there are few.

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
                    msg = (
                        f"the committed offsets of group {self._group_id} were not stable or not to be had within "
                        f"{self._timeout:.0f} s: {error}"
                    )
                    raise KafkaUnreachable(msg) from error
            # Some of these answers come at once; what they wait for is other brokers' doing.
            await connection.sleep(deadline.bound(_PAUSE))
