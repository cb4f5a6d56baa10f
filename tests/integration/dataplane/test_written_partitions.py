"""The partitions that a producer has written to, held against the ends of the partitions' logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from sparkapp.model.errors import KafkaSparkJobError, PreCommitFailed
from sparkapp.model.partition import TopicPartition
from tests.support.kafka.topic_scope import TopicScope
from tests.support.native.batch_path import BatchPath

MANY = 100
"""More partitions than the extension's set holds at first."""


class Logs:
    """The ends of the partitions, whoever may read the records."""

    def __init__(self, bootstrap: str, partitions: dict[str, int]) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": "read_uncommitted"}
        self._consumer = Consumer(config)
        self._every = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._ends = self._read()

    def written(self) -> set[TopicPartition]:
        """The partitions that have grown since the last call."""
        before, self._ends = self._ends, self._read()
        return {each for each in self._every if self._ends[each] > before[each]}

    def close(self) -> None:
        self._consumer.close()

    def _read(self) -> dict[TopicPartition, int]:
        return {each: self._consumer.get_watermark_offsets(Position(*each), timeout=30)[1] for each in self._every}


@pytest.fixture
def two_topics(make_topic: Callable[..., str]) -> dict[str, int]:
    return {make_topic(MANY): MANY, make_topic(MANY // 2): MANY // 2}


@pytest.fixture
def logs(broker: str, two_topics: dict[str, int]) -> Iterator[Logs]:
    opened = Logs(broker, two_topics)
    yield opened
    opened.close()


def keyed(*keys: int) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([str(key) for key in keys]), "key": pa.array([str(key) for key in keys])})


def test_each_transaction_has_its_own_partitions(
    path: BatchPath, topic_scope: TopicScope, two_topics: dict[str, int], logs: Logs
) -> None:
    each, other = two_topics
    producer = path.transactional(f"{topic_scope.prefix}-0")
    batches = [
        [(each, keyed(*range(1000))), (other, keyed(*range(1000)))],
        [(other, keyed(7, 7, 7))],
        [],
        [(each, keyed(1, 2, 3)), (other, keyed(4, 5)), (each, keyed(1, 6))],
    ]
    for number, transaction in enumerate(batches):
        producer.begin_transaction()
        for topic, batch in transaction:
            producer.produce(batch, topic=topic)
        assert producer.flush(30) == sum(batch.num_rows for _, batch in transaction)
        taken = producer.take_partitions()
        assert taken == logs.written(), f"transaction {number}"
        assert {partition.topic for partition in taken} == {topic for topic, _ in transaction}
        assert producer.take_partitions() == frozenset(), "reset by the call"
        producer.commit_transaction(30)
        topic_scope.await_ended()
        assert logs.written() == taken, "the markers"
    assert topic_scope.open_transactions() == []


def test_many_topics_by_the_column(path: BatchPath, topic_scope: TopicScope, make_topic: Callable[..., str]) -> None:
    topics = [make_topic(2, f"t{number}") for number in range(40)]
    producer = path.transactional(f"{topic_scope.prefix}-0")
    producer.begin_transaction()
    rows = [(topic, partition) for _ in range(5) for partition in range(2) for topic in topics[1:]]
    producer.produce(
        pa.record_batch(
            {
                "value": pa.array(["v"] * len(rows)),
                "topic": pa.array([topic for topic, _ in rows]),
                "partition": pa.array([partition for _, partition in rows], pa.int32()),
            }
        ),
        topic=topics[0],
    )
    assert producer.flush(30) == len(rows)
    assert producer.take_partitions() == {TopicPartition(*row) for row in rows}
    producer.abort_transaction(30)
    assert topic_scope.open_transactions() == []


def test_a_transaction_begins_with_no_partitions(path: BatchPath, topic_scope: TopicScope) -> None:
    producer = path.transactional(f"{topic_scope.prefix}-0")
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        assert producer.take_partitions() == frozenset()
        producer.produce(keyed(1), topic=topic_scope.topic)
        assert producer.flush(30) == 1
        end(30)
    producer.begin_transaction()
    assert producer.take_partitions() == frozenset()
    producer.abort_transaction(30)
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []


def test_a_partition_that_refused_a_record_is_named(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(3, max_message_bytes="1000")
    producer = path.producer(max_in_flight_requests_per_connection="1")
    for partition, size in ((0, 10), (2, 5000)):
        column = {"value": pa.array(["x" * size]), "partition": pa.array([partition], pa.int32())}
        producer.produce(pa.record_batch(column), topic=topic)
    with pytest.raises(PreCommitFailed, match="1 records failed"):
        producer.flush(30)
    producer.flush(30)  # the one that failed did not wait for the other record
    assert producer.take_partitions() == {TopicPartition(topic, 0), TopicPartition(topic, 2)}


def test_a_record_that_never_had_a_partition_names_none(path: BatchPath, topic: str) -> None:
    producer = path.producer(message_timeout_ms="500", topic_metadata_propagation_max_ms="100")
    producer.produce(keyed(1), topic=f"{topic}.missing")
    with pytest.raises(KafkaSparkJobError):
        producer.flush(30)
    assert producer.take_partitions() == frozenset()
