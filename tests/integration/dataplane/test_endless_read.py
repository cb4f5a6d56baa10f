"""The endless read: batches as they come, positions behind them, other partitions while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.dataplane.interface import BatchConsumer, GivenUp
from sparkapp.model.checkpoint.split import ENDLESS, KafkaPartitionSplit
from sparkapp.model.errors import OffsetsWentBackwards
from sparkapp.model.partition import TopicPartition
from tests.support.native.batch_path import BatchPath, split


def endless(topic: str, *starts: int) -> list[KafkaPartitionSplit]:
    return [KafkaPartitionSplit(TopicPartition(topic, number), start, ENDLESS) for number, start in enumerate(starts)]


def taken(consumer: BatchConsumer, count: int) -> list[str]:
    found: list[str] = []
    deadline = Deadline.after(30)
    while len(found) < count:
        assert not deadline.expired, found
        batch = consumer.next_batch(wait_millis=100, linger_millis=5, max_rows=1000)
        found += [] if batch is None else [value.decode() for value in batch.column("value").to_pylist()]
    return found


def positions(consumer: BatchConsumer) -> Mapping[int, int]:
    return {partition.partition: offset for partition, offset in consumer.followed.items()}


def test_records_come_as_they_are_written(path: BatchPath, topic: str) -> None:
    consumer = path.consumer()
    consumer.follow(endless(topic, 0))
    assert consumer.next_batch(wait_millis=50, linger_millis=5, max_rows=10) is None
    for turn in range(3):
        values = [f"{turn}-{number}" for number in range(5)]
        path.fill(topic, values)
        assert taken(consumer, 5) == values
        assert positions(consumer) == {0: 5 * (turn + 1)}


def test_a_consumer_tells_how_far_it_is_behind(path: BatchPath, topic: str) -> None:
    path.fill(topic, ["record"] * 100)
    consumer = path.consumer()
    consumer.follow(endless(topic, 0))
    assert consumer.behind == 0, "brokers have sent nothing"
    rows = 0
    deadline = Deadline.after(30)
    while rows < 30:
        assert not deadline.expired
        batch = consumer.next_batch(wait_millis=100, linger_millis=0, max_rows=10)
        rows += 0 if batch is None else batch.num_rows
        assert batch is None or consumer.behind == 100 - rows
    assert len(taken(consumer, 100 - rows)) == 100 - rows
    assert consumer.behind == 0


def test_a_batch_ends_at_its_linger_while_records_keep_coming(path: BatchPath, topic: str) -> None:
    ended = threading.Event()

    def keep_writing() -> None:
        while not ended.is_set():
            path.fill(topic, ["record"])

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        consumer = path.consumer()
        consumer.follow(endless(topic, 0))
        taken(consumer, 1)
        began = time.monotonic()
        while consumer.next_batch(wait_millis=20_000, linger_millis=500, max_rows=100_000) is None:
            """The plain consumer's wait ends with an end of the partition, too."""
        assert time.monotonic() - began < 10, "each record would have begun the linger again"
    finally:
        ended.set()
        writer.join()


def test_a_partition_is_added_while_the_read_goes_on(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    consumer = path.consumer()
    for number in range(2):
        path.fill(topic, [f"{number}-{row}" for row in range(3)], partition=number)
    consumer.follow(endless(topic, 0))
    assert taken(consumer, 3) == ["0-0", "0-1", "0-2"]
    consumer.follow(endless(topic, 3, 1))
    assert taken(consumer, 2) == ["1-1", "1-2"]
    assert positions(consumer) == {0: 3, 1: 3}


def test_more_partitions_than_the_prefetch_was_shared_for_lose_nothing(
    path: BatchPath, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=12)
    consumer = path.consumer()
    path.fill(topic, ["0", "1", "2"])
    consumer.follow(endless(topic, 0))
    assert taken(consumer, 3) == ["0", "1", "2"]
    path.fill(topic, ["3"])
    consumer.follow(endless(topic, 3, *[0] * 11))
    assert taken(consumer, 1) == ["3"]


def test_a_seek_reads_again(path: BatchPath, topic: str) -> None:
    consumer = path.consumer()
    path.fill(topic, ["0", "1", "2"])
    consumer.follow(endless(topic, 0))
    assert taken(consumer, 3) == ["0", "1", "2"]
    consumer.follow(endless(topic, 1))
    assert taken(consumer, 2) == ["1", "2"]


@pytest.mark.parametrize("stop", [3, ENDLESS], ids=["bounded", "endless"])
def test_positions_are_behind_markers(path: BatchPath, topic: str, unique: str, stop: int) -> None:
    path.transact(topic, ["0", "1"], transactional_id=unique, commit=True)
    consumer = path.consumer()
    consumer.follow([split(topic, 0, stop)])
    assert taken(consumer, 2) == ["0", "1"]
    deadline = Deadline.after(30)
    while positions(consumer) != {0: 3}:
        assert not deadline.expired, positions(consumer)
        assert consumer.next_batch(wait_millis=100, linger_millis=5, max_rows=10) is None


def test_a_start_that_the_log_does_not_have_is_an_error(path: BatchPath, topic: str) -> None:
    path.fill(topic, ["0"])
    consumer = path.consumer()
    consumer.follow(endless(topic, 7))
    with pytest.raises(OffsetsWentBackwards):
        taken(consumer, 1)


def test_an_interrupted_consumer_reads_no_more(path: BatchPath, topic: str) -> None:
    consumer = path.consumer()
    consumer.follow(endless(topic, 0))
    consumer.interrupt()
    with pytest.raises(GivenUp):
        consumer.next_batch(wait_millis=5000, linger_millis=5, max_rows=10)
