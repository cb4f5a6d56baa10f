"""A source topic that was deleted and created again, and has outgrown the checkpoint's offsets meanwhile."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.sections.source import OnDataLoss
from tests.support.kafka import visibility
from tests.support.kafka.topics import create_topics
from tests.support.protocol.story import Story

PARTITIONS = 2
NEW = [number for number in range(1000, 1060) if number % 5]
"""What the transform makes of the new topic's records."""


@pytest.fixture
def job(broker: str, make_topic: Callable[..., str], unique: str, client: TransactionClient) -> Iterator[Story]:
    """Has completed two checkpoints of twenty records, and its topic is another one since."""
    source, sink = make_topic(PARTITIONS, "in"), make_topic(1, "out")
    made = Story(broker, source, sink, unique, client, partitions=PARTITIONS, per_checkpoint=10)
    made.produce(20)
    made.run()
    recreate(broker, source)
    yield made
    made.close()


def recreate(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    deadline = Deadline.after(30)
    while topic in admin.list_topics(timeout=10).topics:
        assert not deadline.expired, "the topic is still there"
        time.sleep(0.1)
    create_topics(bootstrap, NewTopic(topic, num_partitions=PARTITIONS))
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1000, 1060):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def written(job: Story) -> list[int]:
    """What readers see, once nothing is open."""
    assert visibility.open_transactions(job.client, job.prefix) == []
    return sorted(visibility.numbers(job.bootstrap, job.sink))


def test_the_job_stops_and_reads_the_new_topic_where_a_person_says_so(job: Story) -> None:
    before, old = written(job), job.document.offsets
    job.start(2)
    assert job.failure is not None, f"continues at {old} of another topic"
    assert (job.failure.reason, job.failure.fatal) == ("TopicRecreated", True)
    assert job.source in job.failure.message
    assert written(job) == before
    assert job.document.offsets == old
    job.data_loss = OnDataLoss.SKIP_TO_AVAILABLE
    job.run()
    assert job.failure is None
    assert written(job) == sorted(before + NEW)
    job.data_loss = OnDataLoss.FAIL
    job.run()
    assert job.failure is None, "the new topic is the checkpoint's by now"
    assert written(job) == sorted(before + NEW)


def test_a_checkpoint_of_the_previous_topic_is_not_gone_back_to(job: Story) -> None:
    job.data_loss = OnDataLoss.SKIP_TO_AVAILABLE
    job.run()
    after = written(job)
    job.data_loss, job.restore = OnDataLoss.FAIL, Restore(checkpoint=1, nonce=1)
    job.start(2)
    assert job.failure is not None
    assert job.failure.reason == "TopicRecreated"
    assert written(job) == after


def test_the_checkpoint_has_the_beginning_of_the_id_that_kafka_prints(job: Story) -> None:
    view = KafkaClusterView({"bootstrap.servers": job.bootstrap}, read_committed=True)
    admin = AdminClient({"bootstrap.servers": job.bootstrap})
    given = admin.describe_topics(TopicCollection([job.source]))[job.source].result(30).topic_id
    number = (given.get_most_significant_bits() << 64 | given.get_least_significant_bits() & (1 << 64) - 1) % (1 << 128)
    full = base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode()
    now = view.topic_ids([job.source, "no-such-topic"])
    assert now == {job.source: full[:10]}
    assert set(job.document.topic_ids) == {job.source}
    assert job.document.topic_ids != now
    assert job.kept[2].topic_ids == job.document.topic_ids
