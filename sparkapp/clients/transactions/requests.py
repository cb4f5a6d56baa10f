"""Requests to transaction coordinators on the wire, each coroutine one attempt.

Who retries, and how long, is :mod:`sparkapp.clients.transactions.client`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import kafka.errors as wire_errors
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, check
from sparkapp.clients.transactions.probes import TRANSACTION_TOPIC, USUAL_PARTITIONS
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription, TransactionListing, state_of
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.errors import KafkaSparkJobError, ListingUnsupported
from sparkapp.model.partition import TopicPartition

END_TXN_MAX_VERSION = 4
"""Version 5 bumps the producer's epoch, which fences a librdkafka producer (case P12)."""
INIT_PRODUCER_ID_MAX_VERSION = 4
"""What librdkafka speaks; later versions belong to the newer transaction protocol."""
TXN_OFFSET_COMMIT_MAX_VERSION = 4
"""Version 5 adds the offsets to the transaction by itself, which belongs to the newer transaction protocol."""
OFFSET_FETCH_VERSION = 7
"""The first that asks for stable offsets (KIP-447), and the last for one group."""
LIST_BY_PATTERN_VERSION = 2
_C_END = "\0"
"""librdkafka stores a C string's end with the text of an offset. Its readers need it."""

FENCE_TIMEOUT_MILLIS = 10_000
"""Time-out that a fencing leaves on the id until its next producer sets its own; any broker's maximum allows it."""


class KafkaWire:
    """The transaction protocol over one cluster's connections; remembers who coordinates each id."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._coordinators: dict[str, Any] = {}

    def brokers(self) -> list[Any]:
        """Node ids of every broker that the cluster's metadata names."""
        return [broker.node_id for broker in self._connection.cluster.brokers()]

    def forget_coordinators(self, transactional_ids: Iterable[str]) -> None:
        """Coordinators of these ids are looked up again by the next request."""
        for transactional_id in transactional_ids:
            self._coordinators.pop(transactional_id, None)

    async def coordinators(self, transactional_ids: Sequence[str], deadline: Deadline) -> dict[str, Any]:
        """The broker that coordinates each id; known coordinators cost nothing.

        Another request may forget an id while the lookup of other ids is under way.
        """
        found = {key: self._coordinators[key] for key in transactional_ids if key in self._coordinators}
        unknown = [key for key in transactional_ids if key not in found]
        if unknown:
            kind = CoordinatorType.TRANSACTION
            request = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=unknown, min_version=4)
            response = await self._connection.send(request, None, deadline)
            for row in response.coordinators:
                check(row.error_code, f"coordinator of {row.key}")
                node = self._connection.cluster.add_coordinator(row, kind, row.key, synthesize_node_id=False)
                found[row.key] = self._coordinators[row.key] = node
        return {transactional_id: found[transactional_id] for transactional_id in transactional_ids}

    async def end_txn(self, end: EndTxn, deadline: Deadline) -> None:
        """One EndTxn; returning means NONE.

        The version is capped whatever the broker offers.
        """
        node = (await self.coordinators([end.transactional_id], deadline))[end.transactional_id]
        response = await self._connection.send(end_txn_request(end), node, deadline)
        check(response.error_code, f"EndTxn of {end.transactional_id}")

    async def init_producer_id(self, transactional_id: str, deadline: Deadline) -> tuple[int, int]:
        """One InitProducerId: aborts what is open and bumps the epoch; CONCURRENT_TRANSACTIONS until that is done.

        :returns: the producer id and epoch that only the caller may write with.
        """
        node = (await self.coordinators([transactional_id], deadline))[transactional_id]
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=FENCE_TIMEOUT_MILLIS,
            producer_id=-1,
            producer_epoch=-1,
            max_version=INIT_PRODUCER_ID_MAX_VERSION,
        )
        response = await self._connection.send(request, node, deadline)
        check(response.error_code, f"InitProducerId of {transactional_id}")
        return response.producer_id, response.producer_epoch

    async def add_offsets(self, transaction: EndTxn, group_id: str, deadline: Deadline) -> None:
        """One AddOffsetsToTxn: begins the transaction, with the partition of the group's offsets in it."""
        ids = [transaction.transactional_id]
        request = add_offsets_request(transaction, group_id)
        response = await self._connection.send(request, (await self.coordinators(ids, deadline))[ids[0]], deadline)
        check(response.error_code, f"AddOffsetsToTxn of {transaction.transactional_id}")

    async def commit_offsets(
        self,
        transaction: EndTxn,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        deadline: Deadline,
        *,
        node: Any = None,
    ) -> dict[TopicPartition, int]:
        """One TxnOffsetCommit for the group as a whole, without a member; Kafka's error code of each partition.

        :param node: the group's coordinator; None looks it up.
        """
        by_topic: dict[str, list[Any]] = {}
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        for (name, number), offset in offsets.items():
            by_topic.setdefault(name, []).append(
                topic.TxnOffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offset, committed_metadata=metadata + _C_END
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=transaction.transactional_id,
            group_id=group_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[topic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
            max_version=TXN_OFFSET_COMMIT_MAX_VERSION,
        )
        coordinator = node if node is not None else await self.group_coordinator(group_id, deadline)
        response = await self._connection.send(request, coordinator, deadline)
        return {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in response.topics
            for each in topic.partitions
        }

    async def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], deadline: Deadline, *, stable: bool, node: Any = None
    ) -> dict[TopicPartition, GroupOffset]:
        """One OffsetFetch; partitions without a committed offset are absent.

        :param stable: whether an open transaction that may change an offset makes this an UNSTABLE_OFFSET_COMMIT.
        :param node: the group's coordinator; None looks it up.
        """
        by_topic: dict[str, list[int]] = {}
        for name, number in partitions:
            by_topic.setdefault(name, []).append(number)
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=[topic(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()],
            require_stable=stable,
            min_version=OFFSET_FETCH_VERSION,
            max_version=OFFSET_FETCH_VERSION,
        )
        coordinator = node if node is not None else await self.group_coordinator(group_id, deadline)
        response = await self._connection.send(request, coordinator, deadline)
        what = f"reading the committed offsets of group {group_id}"
        check(response.error_code, what)
        found = {}
        for answered in response.topics:
            for each in answered.partitions:
                partition = TopicPartition(answered.name, each.partition_index)
                check(each.error_code, f"{what}: {partition}")
                if each.committed_offset >= 0:
                    found[partition] = GroupOffset(each.committed_offset, (each.metadata or "").removesuffix(_C_END))
        return found

    async def group_coordinator(self, group_id: str, deadline: Deadline) -> Any:
        """The broker that coordinates the group, as the asked broker knows it."""
        kind = CoordinatorType.GROUP
        request = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=[group_id], min_version=4)
        (row,) = (await self._connection.send(request, None, deadline)).coordinators
        check(row.error_code, f"coordinator of group {group_id}")
        return self._connection.cluster.add_coordinator(row, kind, row.key, synthesize_node_id=False)

    async def describe(
        self, transactional_ids: Sequence[str], node: Any, deadline: Deadline
    ) -> dict[str, TransactionDescription]:
        """DescribeTransactions to one coordinator; ids that it does not know are absent."""
        request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
        response = await self._connection.send(request, node, deadline)
        found = {}
        for row in response.transaction_states:
            if wire_errors.for_code(row.error_code) is wire_errors.TransactionalIdNotFoundError:
                continue
            check(row.error_code, f"DescribeTransactions of {row.transactional_id}")
            found[row.transactional_id] = TransactionDescription(
                state=state_of(row.transaction_state),
                producer_id=row.producer_id,
                producer_epoch=row.producer_epoch,
                timeout_ms=row.transaction_timeout_ms,
                start_time_ms=row.transaction_start_time_ms,
                partitions=frozenset(
                    TopicPartition(topic.topic, partition) for topic in row.topics for partition in topic.partitions
                ),
            )
        return found

    async def transaction_partitions(self, deadline: Deadline) -> int:
        """How many partitions the coordinators keep transactions in; the usual number where that cannot be seen."""
        return len(await self.transaction_leaders(None, deadline)) or USUAL_PARTITIONS

    async def transaction_leaders(self, node: Any, deadline: Deadline) -> dict[int, tuple[int, int]]:
        """Leader and leader epoch (term) of each partition of the coordinators' topic; empty where the user may
        not see the topic.

        :param node: as this broker knows it; None for any.
        """
        topic = MetadataRequest.MetadataRequestTopic(name=TRANSACTION_TOPIC)
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        response = await self._connection.send(request, node, deadline)
        return {
            partition.partition_index: (partition.leader_id, partition.leader_epoch)
            for row in response.topics
            for partition in row.partitions
        }

    async def require_loaded(self, transactional_ids: Sequence[str], node: Any, deadline: Deadline) -> None:
        """Returns if the broker coordinates these ids and has loaded their states; an id may have none.

        :raises RetriableWireError: it is loading, or another broker is the coordinator.
        """
        request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
        response = await self._connection.send(request, node, deadline)
        for row in response.transaction_states:
            with suppress(
                RefusedWireError, KafkaSparkJobError
            ):  # unknown, or not for this user: an answer all the same
                check(row.error_code, f"DescribeTransactions of {row.transactional_id}")

    async def list_transactions(self, pattern: str | None, node: Any, deadline: Deadline) -> list[TransactionListing]:
        """ListTransactions to one broker; ``pattern`` is applied there where the broker can, so more may come back.

        None asks for every id.

        Kafka leaves out, silently, what the user may not describe.

        :raises ListingUnsupported: the broker does not know the request.
        """
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        offered = self._connection.offered_version(request)
        if offered is None:
            msg = "the brokers do not offer ListTransactions"
            raise ListingUnsupported(msg)
        if pattern is not None and offered >= LIST_BY_PATTERN_VERSION:
            request = ListTransactionsRequest(
                state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern,
                min_version=LIST_BY_PATTERN_VERSION,
            )  # fmt: skip
        response = await self._connection.send(request, node, deadline)
        check(response.error_code, "ListTransactions")
        return [
            TransactionListing(
                transactional_id=row.transactional_id,
                producer_id=row.producer_id,
                state=state_of(row.transaction_state),
            )
            for row in response.transaction_states
        ]


def end_txn_request(end: EndTxn) -> Any:
    """EndTxn; its version is capped whatever the broker offers."""
    return EndTxnRequest(
        transactional_id=end.transactional_id, producer_id=end.producer_id, producer_epoch=end.producer_epoch,
        committed=end.commit, max_version=END_TXN_MAX_VERSION,
    )  # fmt: skip


def add_offsets_request(transaction: EndTxn, group_id: str) -> Any:
    """AddOffsetsToTxn, which begins the transaction where the producer has none open."""
    return AddOffsetsToTxnRequest(
        transactional_id=transaction.transactional_id, producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch, group_id=group_id,
    )  # fmt: skip
