"""What clients see of a transaction that its writer has left open, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from bench.restart.marks import free_again
from bench.restart.outage import Downstream, StableOffsets, SteadyRecords
from clusterjob.kafka.reading import read_committed
from clusterjob.kafka.topics import Topics
from localcluster.errors import SetupError


def transactional(broker: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker, "transactional.id": name})
    producer.init_transactions(20)
    return producer


def test_a_dead_writer_holds_readers_back_until_the_next_ends_its_transaction(
    broker: str, unique: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    with Downstream(broker, topic) as reader, StableOffsets(broker, topic) as offsets:
        before = time.time() - 1
        dead = transactional(broker, unique)
        dead.begin_transaction()
        dead.produce(topic, value=b"lost", partition=0)
        assert dead.flush(20) == 0
        assert offsets.await_open(seconds=240)
        begun = time.time()
        # Fences the dead one and aborts what it left, as a restart does.
        successor = transactional(broker, unique)
        successor.begin_transaction()
        successor.produce(topic, value=b"kept", partition=0)
        successor.commit_transaction(20)
        came = reader.await_beyond(offsets.ends_before(begun), seconds=240)
        free = free_again(offsets.samples(before), begun=begun)
        assert free is not None
        assert free > begun
        assert not any(at > free and stable[0] < 1 for at, stable, _ in offsets.samples(before))
        assert reader.arrivals(before) == [came], "nothing of the dead one was ever seen"
    assert [record.value for record in read_committed(broker, topic)] == [b"kept"]


def test_records_come_in_until_their_end_and_are_all_stored(broker: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    with Downstream(broker, topic) as reader, SteadyRecords(broker, topic, 200) as records:
        came = reader.await_beyond({}, seconds=240)
        assert reader.await_beyond({0: 400, 1: 400}, seconds=240) > came
        stored = records.end()
    assert stored == len(read_committed(broker, topic))


def test_a_topic_that_the_broker_does_not_know_is_not_an_empty_topic(broker: str, unique: str) -> None:
    with pytest.raises(SetupError, match="Unknown topic"):
        read_committed(broker, unique)
    with pytest.raises(SetupError, match="Unknown topic"):
        Topics(broker).held_back(unique)
