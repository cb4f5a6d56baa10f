"""A producer's next transaction, begun by its triple. Its own client could ask a broker that has been replaced."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.connection import check
from sparkapp.clients.transactions.states import TransactionDescription
from sparkapp.model.partition import TopicPartition

_BEFORE_IMPLICIT_PARTITIONS = 11
"""A later Produce adds its partition by itself, which belongs to the newer transaction protocol."""


def begin_next(
    client: TransactionClient,
    transactional_id: str,
    partition: TopicPartition,
    value: bytes,
    *,
    sequence: int,
    node: int,
) -> TransactionDescription:
    """Writes a record in the next transaction of the id's present producer, and leaves the transaction open.

    :param sequence: how many records the producer has written to the partition.
    :param node: the partition's leader.
    """
    now = client.describe([transactional_id])[transactional_id]
    topic, index = partition
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=now.producer_id,
        v3_and_below_producer_epoch=now.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        max_version=3,
    )
    batch = MemoryRecordsBuilder(
        2, 0, 1 << 14, transactional=True, producer_id=now.producer_id, producer_epoch=now.producer_epoch,
        base_sequence=sequence,
    )  # fmt: skip
    batch.append(None, None, value)
    batch.close()
    data = ProduceRequest.TopicProduceData
    written = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            data(name=topic, partition_data=[data.PartitionProduceData(index=index, records=bytes(batch.buffer()))])
        ],
        max_version=_BEFORE_IMPLICIT_PARTITIONS,
    )
    deadline = Deadline.after(30)

    async def both() -> None:
        coordinator = (await client._wire.coordinators([transactional_id], deadline))[transactional_id]
        answer: Any = await client._connection.send(added, coordinator, deadline)
        for result in answer.results_by_topic_v3_and_below:
            for each in result.results_by_partition:
                check(each.partition_error_code, f"adding {partition}")
        answer = await client._connection.send(written, node, deadline)
        for response in answer.responses:
            for each in response.partition_responses:
                check(each.error_code, f"writing to {partition}")

    client._connection.run(deadline, both)
    begun = client.describe([transactional_id])[transactional_id]
    assert begun.state.open
    assert begun.start_time_ms > now.start_time_ms
    return begun
