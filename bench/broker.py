"""The broker and the topics of a bench."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_OVERRIDES: Mapping[str, str] = {
    "log.retention.ms": "-1",
    # A machine that freezes for some seconds must not fence the only broker.
    "broker.session.timeout.ms": "60000",
    # A deleted topic gives its page cache back before the next run, as in a broker that has run for days. After a
    # minute, which is Kafka's default, each run would take fresh memory of the machine, which costs the broker up to
    # twice its time.
    "file.delete.delay.ms": "1000",
}
"""Properties of every temporary broker."""


@contextmanager
def broker_at(bootstrap: str | None, *, overrides: Mapping[str, str] | None = None) -> Iterator[str]:
    """The bootstrap address of the given broker, or of a temporary broker that this starts.

    :param overrides: further properties of the temporary broker.
    """
    if bootstrap:
        yield bootstrap
        return
    from localcluster.kafka.broker import Broker
    from localcluster.kafka.distribution import THROUGHPUT

    with (
        tempfile.TemporaryDirectory() as directory,
        Broker.ephemeral(
            Path(directory), heap="1g", options=THROUGHPUT, overrides={**_OVERRIDES, **(overrides or {})}
        ) as broker,
    ):
        yield broker.bootstrap


def make_topic(bootstrap: str, partitions: int) -> str:
    """Creates a topic whose partitions have leaders, and returns its name."""
    from confluent_kafka.admin import NewTopic

    from tests.support.kafka.topics import create_topics

    name = f"bench-{uuid.uuid4().hex[:8]}"
    create_topics(bootstrap, NewTopic(name, partitions, 1))
    return name


def drop_topic(bootstrap: str, topic: str) -> None:
    """Deletes a topic, so that the next run has the disk and the page cache."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(60)


def wake(bootstrap: str) -> None:
    """Has the broker create its topics for transactions and offsets now, not in the first measured run."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = make_topic(bootstrap, 1)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "wake"})
    for number in range(8):  # enough ids for all partitions of the coordinators' topics
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"wake-{number}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, b"x")
        offsets = [TopicPartition(topic, 0, 0)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)
    consumer.close()
    drop_topic(bootstrap, topic)
