"""Consumers and producers of one implementation of the batch path, and plain Kafka to compare them with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from sparkapp.clients.deadline import Deadline
from sparkapp.dataplane.interface import SOURCE_SCHEMA, BatchConsumer, BatchProducer
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer


class BatchPath:
    """Opens either implementation; everything it opened ends with :meth:`close`."""

    def __init__(self, implementation: str, bootstrap: str) -> None:
        self.implementation = implementation
        self.bootstrap = bootstrap
        self._opened: list[BatchConsumer | BatchProducer] = []

    def consumer(self, **config: str) -> BatchConsumer:
        settings = {"bootstrap.servers": self.bootstrap, **dotted(config)}
        consumer: BatchConsumer
        if self.implementation == "native":
            from sparkapp.dataplane.native.consumer import NativeConsumer

            consumer = NativeConsumer(settings)
        else:
            from sparkapp.dataplane.plain.consumer import PlainConsumer

            consumer = PlainConsumer(settings)
        self._opened.append(consumer)
        return consumer

    def producer(self, **config: str) -> BatchProducer:
        settings = {"bootstrap.servers": self.bootstrap, **dotted(config)}
        producer: BatchProducer
        if self.implementation == "native":
            from sparkapp.dataplane.native.producer import NativeProducer

            producer = NativeProducer(settings)
        else:
            from sparkapp.dataplane.plain.producer import PlainProducer

            producer = PlainProducer(settings)
        self._opened.append(producer)
        return producer

    def transactional(self, transactional_id: str, **config: str) -> BatchProducer:
        """A producer that has fenced its predecessors."""
        producer = self.producer(transactional_id=transactional_id, **config)
        producer.init_transactions(30)
        return producer

    def close(self) -> None:
        for each in self._opened:
            each.close()

    def fill(self, topic: str, values: Iterable[str | None], *, partition: int = 0, **fields: Any) -> None:
        """Writes values with confluent_kafka's own producer."""
        # Idempotent, so that a retry on a topic that was just made does not change the order.
        producer = idempotent_producer(self.bootstrap)
        for value in values:
            producer.produce(topic, value, partition=partition, **fields)
            producer.poll(0)
        assert producer.flush(30) == 0

    def transact(
        self, topic: str, values: Iterable[str], *, transactional_id: str, commit: bool, partition: int = 0
    ) -> None:
        """One transaction of confluent_kafka's own producer."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        if commit:
            producer.commit_transaction(30)
        else:
            assert producer.flush(30) == 0
            producer.abort_transaction(30)

    def delete_below(self, topic: str, offset: int) -> None:
        """Deletes the records before an offset, as retention does."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for deleted in admin.delete_records([Position(topic, 0, offset)]).values():
            deleted.result(30)

    def compact(self, topic: str, *, keep: int) -> None:
        """Lets the broker compact what is in the topic, until a reader finds ``keep`` records of it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        broker = str(next(iter(admin.list_topics(timeout=30).brokers)))
        eager = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
        for altered in admin.incremental_alter_configs(
            [ConfigResource(ResourceType.BROKER, broker, incremental_configs=[eager])]
        ).values():
            altered.result(30)
        deadline = Deadline.after(30)
        others = 0
        while len(visibility.records(self.bootstrap, topic)) - others > keep:
            assert not deadline.expired, f"{topic} is not compacted"
            # The segment written to is never compacted; every new record may begin another one.
            self.fill(topic, ["other"], key=f"other-{others}")
            others += 1

    def end(self, topic: str, partition: int = 0) -> int:
        """Where read_committed reading ends: what the enumerator would take as a stop."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "ends", "isolation.level": "read_committed"}
        )
        try:
            return int(consumer.get_watermark_offsets(Position(topic, partition), timeout=30)[1])
        finally:
            consumer.close()


def split(topic: str, start: int, stop: int, partition: int = 0) -> KafkaPartitionSplit:
    return KafkaPartitionSplit(TopicPartition(topic, partition), start, stop)


def table_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """All batches, each checked to be well formed and of the source's schema."""
    whole = list(batches)
    for batch in whole:
        assert batch.schema == SOURCE_SCHEMA
        assert batch.num_rows
        batch.validate(full=True)
    return pa.Table.from_batches(whole, SOURCE_SCHEMA)


def values_of(batches: Iterable[pa.RecordBatch]) -> list[str | None]:
    return [None if value is None else value.decode() for value in table_of(batches)["value"].to_pylist()]


def dotted(config: dict[str, str]) -> dict[str, str]:
    """Keyword arguments as librdkafka's keys."""
    return {key.replace("_", "."): value for key, value in config.items()}
