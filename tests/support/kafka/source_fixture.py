"""The fixture of the catalogue's group S on a real broker, with the names that its table of owners is about."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from sparkapp.clients.cluster_view import ClusterView
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.model.job.sections.source import OnDataLoss, OnTopicDeleted
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import Subscriber, TopicListSubscriber
from sparkapp.source.offsets_initializer import EarliestOffsetsInitializer, OffsetsInitializer
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.kafka.topics import create_topics
from tests.support.kubernetes.api_client import await_that

PARTITIONS = 10
RECORDS = 10


@dataclass
class SourceFixture:
    """Topics ``topic`` and ``pattern-topic`` of ten partitions with ten records each.

    Record i of a partition has value i and time i * 1000 (plus 1: time 0 is no time to some clients). In partition p of
    ``topic`` the records below offset p are deleted, and the group's committed offset is p + 2.

    :param warnings: warnings of the running test's enumerators; cleared by each :meth:`enumerator`.
    """

    bootstrap: str
    group: str
    view: KafkaClusterView
    topic: str = "topic"
    pattern_topic: str = "pattern-topic"
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def partitions(self, topic: str, numbers: Iterable[int] = range(PARTITIONS)) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in numbers]

    def enumerator(
        self,
        starting: OffsetsInitializer | None = None,
        *,
        subscriber: Subscriber | None = None,
        stopping: OffsetsInitializer | None = None,
        view: ClusterView | None = None,
        interval: float = 0,
        max_offsets: int = 10**6,
        max_rate: int = 0,
        deleted: OnTopicDeleted = OnTopicDeleted.FAIL,
        lost: OnDataLoss = OnDataLoss.FAIL,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> KafkaSourceEnumerator:
        """One of the fixture's ``topic`` from the beginning, where nothing else is said."""
        self.warnings.clear()
        return KafkaSourceEnumerator(
            cluster=view or self.view,
            subscriber=subscriber or TopicListSubscriber((self.topic,)),
            starting=starting or EarliestOffsetsInitializer(),
            options=EnumeratorOptions(
                stopping=stopping,
                discovery_interval=interval, max_offsets=max_offsets, max_rate=max_rate, on_topic_deleted=deleted,
                on_data_loss=lost,
            ),
            warn=lambda reason, message: self.warnings.append((reason, message)),
            clock=clock,
        )  # fmt: skip

    def create(self, **partitions: int) -> None:
        """Makes topics; names are written with ``_`` for ``-``."""
        wanted = {name.replace("_", "-"): count for name, count in partitions.items()}
        create_topics(self.bootstrap, *(NewTopic(name, count, 1) for name, count in wanted.items()))
        await_that("the topics are known", lambda: wanted.items() <= self.view.topics().items())

    def grow(self, topic: str, partitions: int) -> None:
        """Gives a topic more partitions."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        await_that("the partitions are known", lambda: self.view.topics().get(topic) == partitions)

    def delete(self, *topics: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for gone in admin.delete_topics(list(topics)).values():
            gone.result(30)
        await_that("the topics are gone", lambda: not set(topics) & set(self.view.topics()))

    def cut(self, topic: str, offset: int, partition: int = 0) -> None:
        """Takes what is before an offset, as retention does."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_records([ClientPartition(topic, partition, offset)])[ClientPartition(topic, partition)].result(30)

    def fill(self, topic: str, count: int, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(count):
            producer.produce(topic, value=str(number), partition=partition)
        assert producer.flush(30) == 0


@contextmanager
def source_fixture_on(bootstrap: str) -> Iterator[SourceFixture]:
    """Makes the fixture's topics, and deletes them in the end."""
    group = f"group-{uuid.uuid4().hex[:8]}"
    config = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "ns.job", "enable.auto.commit": "false"}
    source_fixture = SourceFixture(bootstrap, group, KafkaClusterView(config, read_committed=True))
    source_fixture.create(topic=PARTITIONS, pattern_topic=PARTITIONS)
    producer = idempotent_producer(bootstrap)
    for name in (source_fixture.topic, source_fixture.pattern_topic):
        for number in range(PARTITIONS):
            for value in range(RECORDS):
                producer.produce(name, value=str(value), partition=number, timestamp=value * 1000 + 1)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cut = [ClientPartition(source_fixture.topic, number, number) for number in range(1, PARTITIONS)]
    for deleted in admin.delete_records(cut).values():
        deleted.result(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    offsets = [ClientPartition(source_fixture.topic, number, number + 2) for number in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    yield source_fixture
    source_fixture.delete(source_fixture.topic, source_fixture.pattern_topic)
    source_fixture.view.close()
