"""A client that knows no broker any more is given the first ones again, or another one takes its place.

librdkafka comes to that where the only broker was out of service for a moment, one time in some hundred: a metadata
answer has topics and no brokers, the connections are ended, and nobody is left to ask. Here it begins so.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkapp.clients.admin import ClusterAdmin
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.topics.sink_topics import SinkTopics
from sparkapp.model.partition import TopicPartition
from tests.support.kafka.topic_scope import TopicScope
from tests.support.native.batch_path import BatchPath, split, values_of

pytestmark = [pytest.mark.broker]

SECONDS = 30.0


@pytest.fixture
def stranded(broker: str):
    clients = BatchPath("native", "")
    yield clients
    clients.close()


def test_a_producer_begins_again(
    stranded: BatchPath, broker: str, topic: str, unique: str, topic_scope: TopicScope
) -> None:
    producer = stranded.producer(transactional_id=unique)
    producer._brokers = broker
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(pa.RecordBatch.from_pydict({"value": [b"a", b"b"]}), topic=topic)
    assert producer.flush(SECONDS) == 2
    topic_scope.commit(unique)
    assert values_of(BatchPath("native", broker).consumer().read([split(topic, 0, 2)])) == ["a", "b"]


def test_a_flush_begins_again(stranded: BatchPath, broker: str, topic: str) -> None:
    producer = stranded.producer()
    producer._brokers = broker
    producer.produce(pa.RecordBatch.from_pydict({"value": [b"a"]}), topic=topic)
    assert producer.flush(SECONDS) == 1


def test_a_read_begins_again(stranded: BatchPath, broker: str, topic: str) -> None:
    BatchPath("native", broker).fill(topic, ["a", "b"])
    consumer = stranded.consumer()
    consumer._config["bootstrap.servers"] = broker
    assert values_of(consumer.read([split(topic, 0, 2)], stall_timeout=SECONDS)) == ["a", "b"]


def test_a_client_with_brokers_is_left_alone(broker: str, topic: str) -> None:
    BatchPath("native", broker).fill(topic, ["a"])
    consumer = BatchPath("native", broker).consumer()
    assert values_of(consumer.read([split(topic, 0, 1)])) == ["a"]
    assert not consumer._client.rejoin("127.0.0.1:1")


def strand(admin: ClusterAdmin) -> ClusterAdmin:
    """Nothing else has this client say what a stranded one says to every question: no broker."""
    present = admin._config
    admin.client = ClusterAdmin({"bootstrap.servers": ""}).client
    assert admin._config is present
    return admin


def test_the_driver_s_questions_begin_again(broker: str, topic: str) -> None:
    BatchPath("native", broker).fill(topic, ["a", "b"])
    view = KafkaClusterView({"bootstrap.servers": broker, "group.id": topic}, read_committed=True)
    strand(view._admin)
    assert view.latest([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2}
    strand(view._admin)
    assert view.topics()[topic] == 1
    view.close()


def test_the_sink_s_questions_begin_again(broker: str, topic: str) -> None:
    topics = SinkTopics({"bootstrap.servers": broker})
    strand(topics._admin)
    assert topics.partitions(topic) == 1
