"""What stops a read: each cause has its own error, in time, and nothing is skipped."""

from __future__ import annotations

import time

import pytest

from sparkapp.model.errors import (
    ConfigurationError,
    KafkaUnreachable,
    OffsetsWentBackwards,
    ReadTimedOut,
    TopicNotFound,
)
from tests.support.native.batch_path import BatchPath, split, values_of

NOBODY_LISTENS = "127.0.0.1:1"


def test_S40_an_offset_beyond_the_end(path: BatchPath, topic: str) -> None:
    path.fill(topic, ["a", "b"])
    consumer = path.consumer()
    with pytest.raises(OffsetsWentBackwards, match=topic):
        list(consumer.read([split(topic, 500, 501)], stall_timeout=20))
    assert values_of(consumer.read([split(topic, 0, 2)])) == ["a", "b"]


def test_an_offset_that_retention_has_deleted(path: BatchPath, topic: str) -> None:
    path.fill(topic, ["a", "b", "c"])
    path.delete_below(topic, 2)
    with pytest.raises(OffsetsWentBackwards, match=topic):
        list(path.consumer().read([split(topic, 0, 3)], stall_timeout=20))


def test_S22_unknown_topic_and_partition(path: BatchPath, topic: str, unique: str) -> None:
    consumer = path.consumer(topic_metadata_propagation_max_ms="100")
    with pytest.raises(TopicNotFound, match=unique):
        list(consumer.read([split(f"{unique}.missing", 0, 1)], stall_timeout=20))
    with pytest.raises(TopicNotFound, match=topic):
        list(consumer.read([split(topic, 0, 1, partition=9)], stall_timeout=20))
    path.fill(topic, ["a"])
    assert values_of(consumer.read([split(topic, 0, 1)])) == ["a"]


def test_I09_no_broker_is_reported_at_the_deadline(path: BatchPath, topic: str) -> None:
    consumer = path.consumer(bootstrap_servers=NOBODY_LISTENS)
    before = time.monotonic()
    with pytest.raises(KafkaUnreachable, match=r"no progress for 1\.5 s reading .* at 3 of 4"):
        list(consumer.read([split(topic, 3, 4)], stall_timeout=1.5))
    assert time.monotonic() - before >= 1.5


def test_nothing_comes_is_reported_with_split_and_position(path: BatchPath, topic: str) -> None:
    path.fill(topic, ["a", "b"])
    consumer = path.consumer()
    reading = consumer.read([split(topic, 0, 5)], stall_timeout=0.7)
    assert values_of([next(reading)]) == ["a", "b"]
    with pytest.raises(ReadTimedOut, match=f"{topic}-0 at 2 of 5"):
        next(reading)


@pytest.mark.parametrize("setting", [{"no_such_key": "1"}, {"fetch_wait_max_ms": "many"}])
def test_a_configuration_that_is_refused(path: BatchPath, setting: dict[str, str]) -> None:
    key = next(iter(setting)).replace("_", ".")
    with pytest.raises(ConfigurationError, match=key):
        path.consumer(**setting)
    with pytest.raises(ConfigurationError, match=r"no\.such\.key"):
        path.producer(no_such_key="1")


def test_what_is_closed_stays_closed(path: BatchPath, topic: str) -> None:
    path.fill(topic, ["a"])
    consumer = path.consumer()
    reading = consumer.read([split(topic, 0, 1)])
    consumer.close()
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        list(reading)
    producer = path.producer()
    producer.close()
    producer.close()
    with pytest.raises(RuntimeError, match="closed"):
        producer.flush(1)
