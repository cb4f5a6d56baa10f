"""Reads a topic to its present end with a plain read_committed consumer, without code of the product."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition

from clusterjob.watch import TimedOut
from localcluster.errors import SetupError

_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record as a reader gets it; ``timestamp`` is in milliseconds since 1970."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def read_committed(bootstrap: str, topic: str, *, seconds: float = 120.0) -> list[ReadRecord]:
    """Every committed record of a topic, in order within a partition.

    The broker says where each partition ends for a read_committed reader: before the first open transaction.

    :raises SetupError: the broker does not know the topic, or refuses to serve it.
    :raises TimedOut: the end is not reached in time.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"kafkaspark-oracle-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            # A broker answers so late at the end of a partition, by default after half a second.
            "fetch.wait.max.ms": 10,
        }
    )
    records: list[ReadRecord] = []
    deadline = time.monotonic() + seconds
    try:
        described = consumer.list_topics(topic, timeout=30).topics[topic]
        if described.error is not None:
            raise SetupError(f"topic {topic} cannot be read: {described.error.str()}")
        partitions = described.partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        unread = set(partitions)
        while unread:
            if time.monotonic() > deadline:
                raise TimedOut(
                    f"topic {topic} was not read to its end within {seconds:.0f} s: {len(records)} records were read"
                )
            for message in consumer.consume(_AT_ONCE, timeout=0.2):
                error = message.error()
                if error is None:
                    records.append(
                        ReadRecord(message.partition(), message.key(), message.value(), message.timestamp()[1])
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    raise SetupError(f"topic {topic} cannot be read: {error.str()}")
    finally:
        consumer.close()
    return records
