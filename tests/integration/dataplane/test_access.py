"""Credentials and ACLs: refused ones surface at once and by their own error, long before any deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from sparkapp.dataplane.interface import BatchProducer
from sparkapp.model.errors import AuthenticationFailed, AuthorizationFailed, KafkaSparkJobError
from sparkapp.model.partition import TopicPartition
from tests.support.kafka.secured_broker import Right, secured_broker
from tests.support.native.batch_path import BatchPath, split, values_of

LONG = 600.0
SOON = 200.0
"""Before LONG, also on a busy machine."""
SECURITY = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "job"}
BATCH = pa.record_batch({"value": pa.array(["a", "b"])})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with SASL/PLAIN; its user ``job`` may use topics, ids and groups ``mine*``, and see topic ``listed``."""

    mine = (
        Right(kind, "mine", what, prefixed=True)
        for kind, what in (
            (ResourceType.TOPIC, AclOperation.READ),
            (ResourceType.TOPIC, AclOperation.WRITE),
            (ResourceType.GROUP, AclOperation.READ),
            (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        )
    )
    listed = Right(ResourceType.TOPIC, "listed", AclOperation.DESCRIBE)
    topics = ("mine", "theirs", "listed")
    with secured_broker(tmp_path_factory.mktemp("secured"), *mine, listed, topics=topics) as broker:
        yield broker.bootstrap


@pytest.fixture(params=["native", "plain"])
def path(request: pytest.FixtureRequest, secured: str) -> Iterator[BatchPath]:
    opened = BatchPath(request.param, secured)
    yield opened
    opened.close()


def raises_soon(kind: type[KafkaSparkJobError], call: Callable[[], object]) -> str:
    began = time.monotonic()
    with pytest.raises(kind) as refused:
        call()
    assert time.monotonic() - began < SOON
    return str(refused.value)


def produce_and_flush(producer: BatchProducer, topic: str) -> int:
    producer.produce(BATCH, topic=topic)
    return producer.flush(LONG)


def test_what_is_allowed_works(path: BatchPath) -> None:
    start = path.producer(sasl_password="j", **SECURITY)
    assert produce_and_flush(start, "mine") == 2
    consumer = path.consumer(sasl_password="j", group_id="mine", **SECURITY)
    assert values_of(consumer.read([split("mine", 0, 2)], stall_timeout=LONG)) == ["a", "b"]
    producer = path.producer(sasl_password="j", transactional_id=f"mine-{path.implementation}", **SECURITY)
    producer.init_transactions(LONG)
    producer.begin_transaction()
    assert produce_and_flush(producer, "mine") == 2
    producer.send_offsets({TopicPartition("mine", 0): 2}, group_id="mine", metadata="", timeout=LONG)
    producer.abort_transaction(LONG)


def test_a_wrong_password(path: BatchPath) -> None:
    consumer = path.consumer(sasl_password="wrong", **SECURITY)
    reading = [split("mine", 0, 1)]
    message = raises_soon(AuthenticationFailed, lambda: list(consumer.read(reading, stall_timeout=LONG)))
    assert "reading mine-0 at 0 of 1" in message
    producer = path.producer(sasl_password="wrong", **SECURITY)
    raises_soon(AuthenticationFailed, lambda: produce_and_flush(producer, "mine"))
    transactional = path.producer(sasl_password="wrong", transactional_id="mine", **SECURITY)
    raises_soon(AuthenticationFailed, lambda: transactional.init_transactions(LONG))


@pytest.mark.parametrize("topic", ["theirs", "listed"])
def test_a_topic_without_an_acl(path: BatchPath, topic: str) -> None:
    consumer = path.consumer(sasl_password="j", group_id="mine", **SECURITY)
    reading = [split(topic, 0, 1)]
    assert topic in raises_soon(AuthorizationFailed, lambda: list(consumer.read(reading, stall_timeout=LONG)))
    producer = path.producer(sasl_password="j", **SECURITY)
    assert topic in raises_soon(AuthorizationFailed, lambda: produce_and_flush(producer, topic))


def test_a_transactional_id_or_group_without_an_acl(path: BatchPath) -> None:
    producer = path.producer(sasl_password="j", transactional_id="theirs", **SECURITY)
    raises_soon(AuthorizationFailed, lambda: producer.init_transactions(LONG))
    mine = path.producer(sasl_password="j", transactional_id=f"mine-{path.implementation}", **SECURITY)
    mine.init_transactions(LONG)
    mine.begin_transaction()
    offsets = {TopicPartition("mine", 0): 2}
    raises_soon(AuthorizationFailed, lambda: mine.send_offsets(offsets, group_id="theirs", metadata="", timeout=LONG))
    mine.abort_transaction(LONG)


def test_a_group_without_an_acl_does_not_hinder_reading(path: BatchPath) -> None:
    """Nothing is committed through the consumer: offsets move with the transaction, or by the driver."""
    assert produce_and_flush(path.producer(sasl_password="j", **SECURITY), "mine") == 2
    consumer = path.consumer(sasl_password="j", group_id="theirs", **SECURITY)
    assert len(values_of(consumer.read([split("mine", 0, 2)], stall_timeout=LONG))) == 2
