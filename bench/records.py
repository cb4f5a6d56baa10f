"""The records of a topic: written for a bench, and counted after each run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sparkapp.dataplane.batch import open_consumer, open_producer
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition as Partition

_SETTLE_SECONDS = 60.0


def write_records(bootstrap: str, topic: str, values: Sequence[bytes], *, records: int, partitions: int) -> None:
    """Writes the values again and again, evenly over the topic's partitions.

    :param records: in all; the last repetition may be cut.
    """
    chunk = pa.array(values, pa.binary())
    producer = open_producer({"bootstrap.servers": bootstrap, "linger.ms": "20", "batch.num.messages": "50000"})
    for start in range(0, records, len(chunk)):
        count = min(len(chunk), records - start)
        partition = pa.array([(start + index) % partitions for index in range(count)], pa.int32())
        producer.produce(
            pa.RecordBatch.from_arrays([chunk.slice(0, count), partition], ["value", "partition"]), topic=topic
        )
    producer.flush(120)
    producer.close()


class EndOffsets:
    """The ends of a topic's partitions, as readers of either isolation level see them. One request each."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        found = self._admin.list_topics(topic, timeout=30).topics[topic].partitions
        self._partitions = [TopicPartition(topic, number) for number in found]

    def of(self, *, committed: bool) -> dict[Partition, int]:
        """
        :param committed: the last stable offsets; otherwise the high watermarks.
        :raises KafkaException: the broker does not answer.
        """
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        futures = self._admin.list_offsets(
            dict.fromkeys(self._partitions, OffsetSpec.latest()), isolation_level=level, request_timeout=30
        )
        return {
            Partition(partition.topic, partition.partition): future.result(60).offset
            for partition, future in futures.items()
        }

    def settled(self) -> dict[Partition, int]:
        """Waits until no transaction is open. A broker answers EndTxn before the markers are in the partitions.

        :raises TimeoutError: transactions stay open.
        """
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (stable := self.of(committed=True)) != (high := self.of(committed=False)):
            if time.monotonic() > deadline:
                msg = f"transactions stay open: last stable offsets {stable}, high watermarks {high}"
                raise TimeoutError(msg)
            time.sleep(0.02)
        return stable


def count_committed(bootstrap: str, topic: str) -> int:
    """The records that a ``read_committed`` reader finds once no transaction of the topic is open.

    :raises TimeoutError: transactions stay open.
    """
    ends = EndOffsets(bootstrap, topic).settled()
    consumer = open_consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench-check", "isolation.level": "read_committed"}
    )
    splits = [KafkaPartitionSplit(partition, 0, end) for partition, end in ends.items() if end]
    found = sum(batch.num_rows for batch in consumer.read(splits, columns=frozenset({"partition"})))
    consumer.close()
    return found


def expect_committed(bootstrap: str, topic: str, records: int, *, name: str) -> None:
    """Ends the bench unless the topic has exactly the records, so that no figure comes from lost records."""
    found = count_committed(bootstrap, topic)
    if found != records:
        sys.exit(f"{name}: {found:,} records in the sink, not {records:,}")
