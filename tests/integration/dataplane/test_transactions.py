"""Transactions of the batch producer, judged by a read_committed reader and by the coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from sparkapp.dataplane.interface import BatchProducer
from sparkapp.model.errors import TransactionError, TransactionFenced, TransactionTimeoutTooLong
from sparkapp.model.partition import TopicPartition
from tests.support.kafka.topic_scope import TopicScope
from tests.support.native.batch_path import BatchPath


def batch(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values)})


def produce_and_flush(producer: BatchProducer, topic: str, *values: str) -> int:
    producer.produce(batch(*values), topic=topic)
    return producer.flush(30)


def committed(path: BatchPath, group: str, *partitions: TopicPartition) -> list[tuple[int, str | None]]:
    consumer = Consumer({"bootstrap.servers": path.bootstrap, "group.id": group, "isolation.level": "read_committed"})
    try:
        found = consumer.committed([Position(*partition) for partition in partitions], timeout=30)
        return [(each.offset, each.metadata) for each in found]
    finally:
        consumer.close()


def test_aborted_records_and_offsets_are_invisible_and_committed_ones_are_not(
    path: BatchPath, topic_scope: TopicScope
) -> None:
    group, source = topic_scope.prefix, TopicPartition(topic_scope.topic, 0)
    producer = path.transactional(f"{topic_scope.prefix}-0")

    producer.begin_transaction()
    producer.produce(batch("a", "b"), topic=topic_scope.topic)
    producer.send_offsets({source: 17}, group_id=group, metadata="aborted", timeout=30)
    assert producer.flush(30) == 2
    producer.abort_transaction(30)
    assert topic_scope.numbers() == []
    assert committed(path, group, source) == [(-1001, None)]

    producer.begin_transaction()
    producer.produce(batch("1", "2"), topic=topic_scope.topic)
    producer.send_offsets({source: 42}, group_id=group, metadata='{"checkpoint": 7}', timeout=30)
    assert producer.flush(30) == 2
    assert topic_scope.numbers() == []
    assert topic_scope.open_transactions() == [f"{topic_scope.prefix}-0"]
    topic_scope.commit(f"{topic_scope.prefix}-0")
    assert topic_scope.numbers() == [1, 2]
    assert committed(path, group, source) == [(42, '{"checkpoint": 7}')]
    assert topic_scope.open_transactions() == []


def test_the_text_on_an_offset_arrives_as_it_was_whatever_its_length(path: BatchPath, topic_scope: TopicScope) -> None:
    """librdkafka measures it with strlen; where a heap block was filled to its last byte, it read on behind it."""
    source = TopicPartition(topic_scope.topic, 0)
    for length in range(65):
        producer = path.transactional(f"{topic_scope.prefix}-0")
        text = ("0123456789" * 7)[:length]
        producer.begin_transaction()
        producer.produce(batch("1"), topic=topic_scope.topic)
        producer.send_offsets({source: length}, group_id=topic_scope.prefix, metadata=text, timeout=30)
        assert producer.flush(30) == 1
        producer.close()
        topic_scope.commit(f"{topic_scope.prefix}-0")
        assert committed(path, topic_scope.prefix, source) == [(length, text)]


def test_close_leaves_the_transaction_open_and_the_next_attempt_aborts_it(
    path: BatchPath, topic_scope: TopicScope
) -> None:
    producer = path.transactional(f"{topic_scope.prefix}-0")
    producer.begin_transaction()
    producer.produce(batch("1", "2", "3"), topic=topic_scope.topic)
    assert producer.flush(30) == 3
    producer.close()
    assert topic_scope.open_transactions() == [f"{topic_scope.prefix}-0"]
    path.transactional(f"{topic_scope.prefix}-0")
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_a_transaction_that_is_closed_with_a_queue_ends_with_the_next_producer(
    path: BatchPath, topic_scope: TopicScope
) -> None:
    producer = path.transactional(f"{topic_scope.prefix}-0", linger_ms="30000")
    producer.begin_transaction()
    producer.produce(batch("1"), topic=topic_scope.topic)
    before = time.monotonic()
    producer.close()
    assert time.monotonic() - before < 15
    path.transactional(f"{topic_scope.prefix}-0")
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_a_fenced_producer_learns_it_when_it_flushes(path: BatchPath, topic_scope: TopicScope) -> None:
    zombie = path.transactional(f"{topic_scope.prefix}-0")
    zombie.begin_transaction()
    zombie.produce(batch("1"), topic=topic_scope.topic)
    assert zombie.flush(30) == 1
    successor = path.transactional(f"{topic_scope.prefix}-0")
    with pytest.raises(TransactionFenced):
        produce_and_flush(zombie, topic_scope.topic, "2")
    with pytest.raises(TransactionFenced):
        zombie.produce(batch("3"), topic=topic_scope.topic)
    successor.begin_transaction()
    successor.produce(batch("4"), topic=topic_scope.topic)
    assert successor.flush(30) == 1
    topic_scope.commit(f"{topic_scope.prefix}-0")
    assert topic_scope.numbers() == [4]
    assert topic_scope.open_transactions() == []


STEPS: dict[str, Callable[[BatchProducer, TopicScope], object]] = {
    "send_offsets": lambda producer, topic_scope: producer.send_offsets(
        {TopicPartition(topic_scope.topic, 0): 1}, group_id=topic_scope.prefix, metadata="", timeout=30
    ),
    "abort": lambda producer, _: producer.abort_transaction(30),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_fenced_producer_learns_it_at_every_step(path: BatchPath, topic_scope: TopicScope, step: str) -> None:
    zombie = path.transactional(f"{topic_scope.prefix}-0")
    zombie.begin_transaction()
    zombie.produce(batch("1"), topic=topic_scope.topic)
    assert zombie.flush(30) == 1
    path.transactional(f"{topic_scope.prefix}-0")
    with pytest.raises(TransactionFenced):
        STEPS[step](zombie, topic_scope)
    assert topic_scope.numbers() == []
    assert topic_scope.open_transactions() == []


def test_steps_in_the_wrong_order(path: BatchPath, topic_scope: TopicScope) -> None:
    producer = path.producer(transactional_id=f"{topic_scope.prefix}-0")
    with pytest.raises(TransactionError):
        producer.begin_transaction()
    producer.init_transactions(30)
    with pytest.raises(TransactionError):
        producer.produce(batch("1"), topic=topic_scope.topic)
    producer.begin_transaction()
    with pytest.raises(TransactionError):
        producer.begin_transaction()
    producer.produce(batch("2"), topic=topic_scope.topic)
    assert producer.flush(30) == 1
    topic_scope.commit(f"{topic_scope.prefix}-0")
    assert topic_scope.numbers() == [2]


def test_a_timeout_beyond_the_brokers_limit(path: BatchPath, topic_scope: TopicScope) -> None:
    producer = path.producer(transactional_id=f"{topic_scope.prefix}-0", transaction_timeout_ms="900001")
    with pytest.raises(TransactionTimeoutTooLong):
        producer.init_transactions(30)


def test_counts_restart_with_each_transaction(path: BatchPath, topic_scope: TopicScope) -> None:
    producer = path.transactional(f"{topic_scope.prefix}-0")
    for round_ in range(1, 4):
        producer.begin_transaction()
        producer.produce(batch(*map(str, range(round_))), topic=topic_scope.topic)
        assert producer.flush(30) == round_
        assert producer.flush(30) == 0
        producer.abort_transaction(30)
    assert topic_scope.numbers() == []
