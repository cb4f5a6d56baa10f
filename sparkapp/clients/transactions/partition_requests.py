"""Requests about partitions, to their leaders and to the coordinator that adds them; each coroutine one attempt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin.transactions import DescribeProducersRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer.transaction import AddPartitionsToTxnRequest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection
from sparkapp.clients.transactions.states import EndTxn, OpenProducer
from sparkapp.model.partition import TopicPartition

ADD_PARTITIONS_VERSION = 3
"""The last for clients; later versions are for brokers (KIP-890)."""
_NO_OFFSET = -1
_NO_ERROR, _REFUSED, _NOT_ATTEMPTED = 0, 29, 55
"""Kafka's codes of a partition or topic: no error; the user lacks a right on the topic; another partition's error."""
_NOBODY = -1


class KnownLeader(NamedTuple):
    """A partition's leader by one broker's metadata; ``node`` is None where it has none."""

    epoch: int
    node: int | None


class TopicsAt(NamedTuple):
    """One broker's metadata of topics.

    :param leaders: of every partition of the topics that exist there. :param hidden: topics that the user may not
        describe.
    """

    leaders: Mapping[TopicPartition, KnownLeader]
    hidden: frozenset[str]


class ProducersAt(NamedTuple):
    """A leader's answer about one partition: Kafka's error code, and the producers with an open transaction."""

    code: int
    open: tuple[OpenProducer, ...]

    @property
    def is_answer(self) -> bool:
        """Whether the leader has answered; otherwise the leader may have moved."""
        return self.code == _NO_ERROR

    @property
    def is_refused(self) -> bool:
        """Whether the user lacks READ on the topic."""
        return self.code == _REFUSED


class PartitionWire:
    """Used by the transaction client and :class:`sparkapp.clients.transactions.partition_logs.PartitionLogs`."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    async def topics_at(self, topics: Collection[str] | None, node: Any, deadline: Deadline) -> TopicsAt:
        """Metadata of topics as one broker knows it; None for all topics that the user may describe."""
        kind = MetadataRequest.MetadataRequestTopic
        asked = None if topics is None else [kind(name=name) for name in sorted(topics)]
        response = await self._connection.send(
            MetadataRequest(topics=asked, allow_auto_topic_creation=False), node, deadline
        )
        self._connection.learn_brokers(response)
        known = {broker.node_id for broker in response.brokers}
        leaders = {
            TopicPartition(row.name, each.partition_index): KnownLeader(
                each.leader_epoch, each.leader_id if each.leader_id != _NOBODY and each.leader_id in known else None
            )
            for row in response.topics
            for each in row.partitions
        }
        return TopicsAt(leaders, frozenset(row.name for row in response.topics if row.error_code == _REFUSED))

    async def producers_at(
        self, partitions: Iterable[TopicPartition], node: Any, deadline: Deadline
    ) -> dict[TopicPartition, ProducersAt]:
        """DescribeProducers to one broker, which is to lead the partitions."""
        by_topic = _by_topic(partitions)
        kind = DescribeProducersRequest.TopicRequest
        request = DescribeProducersRequest(
            topics=[kind(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
        )
        response = await self._connection.send(request, node, deadline)
        return {
            TopicPartition(row.name, each.partition_index): ProducersAt(
                each.error_code,
                tuple(
                    OpenProducer(producer.producer_id, producer.producer_epoch, producer.current_txn_start_offset)
                    for producer in each.active_producers
                    if producer.current_txn_start_offset != _NO_OFFSET
                ),
            )
            for row in response.topics
            for each in row.partitions
        }


def add_partitions_request(transaction: EndTxn, partitions: Iterable[TopicPartition]) -> Any:
    """AddPartitionsToTxn, which begins the transaction where the producer has none open."""
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=[kind(name=name, partitions=numbers) for name, numbers in _by_topic(partitions).items()],
        max_version=ADD_PARTITIONS_VERSION,
    )


def codes_of_added(response: Any) -> list[int]:
    """Kafka's error codes of a response to a request about a transaction: of each partition, or of the whole.

    A code that only says that another partition has an error comes last.
    """
    rows = getattr(response, "results_by_topic_v3_and_below", None)
    if rows is None:
        return [response.error_code]
    codes = [each.partition_error_code for row in rows for each in row.results_by_partition]
    return sorted(codes, key=lambda code: code == _NOT_ATTEMPTED)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, number in sorted(partitions):
        found.setdefault(name, []).append(number)
    return found
