"""Bounded reads: every record once, and an end whatever stands before the stop."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pyarrow as pa
import pytest

from sparkapp.dataplane.partition_queue import IDLE_READS
from sparkapp.model.errors import InvalidArgument, ReadTimedOut
from tests.support.native.batch_path import BatchPath, split, table_of, values_of


def numbers(start: int, stop: int) -> list[str]:
    return [str(number) for number in range(start, stop)]


def test_S25_empty_splits_end_at_once_and_the_next_read_is_clean(path: BatchPath, topic: str) -> None:
    path.fill(topic, numbers(0, 10))
    consumer = path.consumer()
    assert list(consumer.read([split(topic, 10, 10), split(topic, 0, 0, partition=7)])) == []
    assert list(consumer.read([])) == []
    assert values_of(consumer.read([split(topic, 0, 10)])) == numbers(0, 10)


def test_a_consumer_that_has_learned_its_topics_reads_as_any(path: BatchPath, topic: str, unique: str) -> None:
    path.fill(topic, numbers(0, 10))
    consumer = path.consumer()
    consumer.learn([f"{unique}-missing", topic])
    assert values_of(consumer.read([split(topic, 0, 10)])) == numbers(0, 10)


def test_S35_every_stop_ends_the_read_also_among_markers(path: BatchPath, topic: str, unique: str) -> None:
    path.transact(topic, numbers(0, 3), transactional_id=unique, commit=True)  # 0-2, marker 3
    path.transact(topic, numbers(100, 105), transactional_id=unique, commit=False)  # 4-8, marker 9
    path.transact(topic, numbers(3, 5), transactional_id=unique, commit=True)  # 10, 11, marker 12
    path.transact(topic, numbers(200, 203), transactional_id=unique, commit=False)  # 13-15, marker 16
    visible = {0: "0", 1: "1", 2: "2", 10: "3", 11: "4"}
    for stop in range(1, 18):
        read = values_of(path.consumer().read([split(topic, 0, stop)], stall_timeout=10))
        assert read == [value for offset, value in visible.items() if offset < stop]


def test_S35_reading_on_through_markers_in_steps_of_one(path: BatchPath, topic: str, unique: str) -> None:
    path.transact(topic, numbers(0, 3), transactional_id=unique, commit=True)
    path.transact(topic, numbers(100, 105), transactional_id=unique, commit=False)
    consumer = path.consumer()
    read = [values_of(consumer.read([split(topic, offset, offset + 1)])) for offset in range(10)]
    assert read == [["0"], ["1"], ["2"], [], [], [], [], [], [], []]
    path.transact(topic, numbers(3, 5), transactional_id=unique, commit=True)
    assert values_of(consumer.read([split(topic, 10, 13)])) == ["3", "4"]


def test_records_of_an_open_transaction_wait(path: BatchPath, topic: str, unique: str) -> None:
    path.fill(topic, numbers(0, 5))
    producer = path.transactional(unique)
    producer.begin_transaction()
    producer.produce(pa.record_batch({"value": pa.array(["open"] * 3)}), topic=topic)
    assert producer.flush(30) == 3
    assert path.end(topic) == 5
    assert values_of(path.consumer().read([split(topic, 0, 5)])) == numbers(0, 5)


def test_deleted_records_leave_a_gap_at_the_start(path: BatchPath, topic: str) -> None:
    path.fill(topic, numbers(0, 10))
    path.delete_below(topic, 4)
    assert values_of(path.consumer().read([split(topic, 4, 10)])) == numbers(4, 10)


def test_compacted_records_leave_gaps(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(cleanup_policy="compact", segment_ms="50", min_cleanable_dirty_ratio="0.001")
    path.fill(topic, numbers(0, 20), key="same")
    path.compact(topic, keep=1)
    assert values_of(path.consumer().read([split(topic, 0, 20)])) == ["19"]
    consumer = path.consumer()
    assert values_of(consumer.read([split(topic, 0, 10)])) == []
    assert values_of(consumer.read([split(topic, 10, 19)])) == []
    assert values_of(consumer.read([split(topic, 19, 20)])) == ["19"]


def test_stop_inside_the_log_and_reading_on(path: BatchPath, topic: str) -> None:
    path.fill(topic, numbers(0, 5000))
    consumer = path.consumer()
    stops = [0, 1, 2, 1000, 1024, 1025, 3333, 4999, 5000]
    for start, stop in itertools.pairwise(stops):
        assert values_of(consumer.read([split(topic, start, stop)])) == numbers(start, stop)


def test_reading_on_waits_for_what_is_not_written_yet(path: BatchPath, topic: str) -> None:
    path.fill(topic, numbers(0, 10))
    consumer = path.consumer()
    assert values_of(consumer.read([split(topic, 0, 10)])) == numbers(0, 10)
    reading = consumer.read([split(topic, 10, 15)])
    path.fill(topic, numbers(10, 15))
    assert values_of(reading) == numbers(10, 15)


def test_seeking_elsewhere_forwards_and_back(path: BatchPath, topic: str) -> None:
    path.fill(topic, numbers(0, 3000))
    consumer = path.consumer()
    for start, stop in ((2000, 2500), (0, 100), (2500, 3000), (99, 101), (0, 3000), (0, 3000)):
        assert values_of(consumer.read([split(topic, start, stop)])) == numbers(start, stop)


def test_an_abandoned_read_costs_nothing_but_a_seek(path: BatchPath, topic: str) -> None:
    path.fill(topic, numbers(0, 3000))
    consumer = path.consumer()
    reading = consumer.read([split(topic, 0, 3000)], max_rows=10)
    assert values_of([next(reading)]) == numbers(0, 10)
    reading.close()
    assert values_of(consumer.read([split(topic, 0, 3000)])) == numbers(0, 3000)
    forgotten = consumer.read([split(topic, 0, 3000)], max_rows=10)
    assert values_of([next(forgotten)]) == numbers(0, 10)
    assert values_of(consumer.read([split(topic, 10, 3000)])) == numbers(10, 3000)
    with pytest.raises(RuntimeError, match="another read"):
        next(forgotten)


def test_other_splits_as_after_a_rescale(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topics = [make_topic(partitions=3, name=name) for name in ("a", "b")]
    for topic in topics:
        for partition in range(3):
            path.fill(topic, [f"{topic}/{partition}/{number}" for number in range(100)], partition=partition)
    consumer = path.consumer()
    a, b = topics

    def read(*splits: tuple[str, int, int, int]) -> list[str | None]:
        return values_of(consumer.read([split(topic, start, stop, part) for topic, part, start, stop in splits]))

    def expected(*splits: tuple[str, int, int, int]) -> list[str]:
        return [f"{topic}/{part}/{number}" for topic, part, start, stop in splits for number in range(start, stop)]

    for step in (
        [(a, 0, 0, 50), (a, 1, 0, 10)],
        [(a, 0, 50, 60), (b, 2, 0, 100)],
        [(a, 1, 10, 100), (a, 2, 3, 4), (b, 0, 0, 100)],
        [(a, 0, 60, 100)],
        [(a, 0, 0, 100), (a, 1, 0, 100), (a, 2, 0, 100), (b, 0, 0, 100), (b, 1, 0, 100), (b, 2, 0, 100)],
    ):
        assert sorted(read(*step)) == sorted(expected(*step))


def test_a_partition_that_is_idle_for_long_is_taken_up_again(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    for partition in range(2):
        path.fill(topic, numbers(0, 100), partition=partition)
    consumer = path.consumer()
    assert values_of(consumer.read([split(topic, 0, 10, partition=1)])) == numbers(0, 10)
    for offset in range(40):
        assert values_of(consumer.read([split(topic, offset, offset + 1)])) == [str(offset)]
    assert values_of(consumer.read([split(topic, 10, 100, partition=1)])) == numbers(10, 100)


def test_S27_a_paused_partition_that_is_no_longer_assigned_is_left_alone(
    path: BatchPath, make_topic: Callable[..., str]
) -> None:
    """More arrives of partition 1 than its read takes, so its fetching is held back; then it is given back."""
    topic, many = make_topic(partitions=2), 30_000
    path.fill(topic, numbers(0, 200))
    path.fill(topic, numbers(0, many), partition=1)
    consumer = path.consumer()
    assert values_of(consumer.read([split(topic, 0, 1, partition=1)])) == ["0"]
    for offset in range(2 * IDLE_READS):
        assert values_of(consumer.read([split(topic, offset, offset + 1)])) == [str(offset)]
    # Neither pause nor resume is called for a partition that is not assigned: nothing complains, now or later.
    both = [split(topic, 2 * IDLE_READS, 200), split(topic, 1, many, partition=1)]
    table = table_of(consumer.read(both))
    for partition, (start, stop) in enumerate(((2 * IDLE_READS, 200), (1, many))):
        of_it = table.filter(table["partition"].combine_chunks().to_numpy() == partition)
        assert of_it["offset"].to_pylist() == list(range(start, stop))


def test_S28_a_read_that_is_given_up_does_not_disturb_the_next_assignment(
    path: BatchPath, make_topic: Callable[..., str]
) -> None:
    """Flink wakes its consumer up to give it other splits. Here a read ends in the middle of its wait when nothing has
    come for too long, and the next one has other partitions, then the same ones."""
    topic = make_topic(partitions=3)
    for partition in range(2):
        path.fill(topic, numbers(0, 100), partition=partition)
    consumer = path.consumer()
    for partition in (0, 1, 0):
        waiting = consumer.read([split(topic, 0, 10, partition), split(topic, 0, 5, 2)], stall_timeout=0.3)
        with pytest.raises(ReadTimedOut):
            values_of(waiting)
        assert values_of(consumer.read([split(topic, 0, 100, 1 - partition)])) == numbers(0, 100)
    path.fill(topic, numbers(0, 5), partition=2)
    assert values_of(consumer.read([split(topic, 0, 5, partition=2)])) == numbers(0, 5)
    left = consumer.read([split(topic, 0, 10)], max_rows=5)
    assert values_of([next(left)]) == numbers(0, 5)
    left.close()
    assert values_of(consumer.read([split(topic, 0, 100, partition=1)])) == numbers(0, 100), "one that was left"


def test_more_partitions_than_the_prefetch_was_shared_for(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=20)
    for partition in range(20):
        path.fill(topic, numbers(0, 20), partition=partition)
    consumer = path.consumer()
    assert values_of(consumer.read([split(topic, 0, 5)])) == numbers(0, 5)
    table = table_of(consumer.read([split(topic, 5, 20, partition) for partition in range(20)]))
    for partition in range(20):
        of_it = table.filter(table["partition"].combine_chunks().to_numpy() == partition)
        assert of_it["offset"].to_pylist() == list(range(5, 20))


def test_partitions_take_turns(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=3)
    for partition in range(3):
        path.fill(topic, numbers(0, 6000), partition=partition)
    consumer = path.consumer()
    # All three have been fetched when each has given its first record.
    assert values_of(consumer.read([split(topic, 0, 1, partition) for partition in range(3)])) == ["0"] * 3
    table = table_of(consumer.read([split(topic, 1, 6000, partition) for partition in range(3)]))
    first_half = table.slice(0, 9000)["partition"].to_pylist()
    assert all(first_half.count(partition) > 1000 for partition in range(3))
    for partition in range(3):
        of_it = table.filter(table["partition"].combine_chunks().to_numpy() == partition)
        assert of_it["offset"].to_pylist() == list(range(1, 6000))


@pytest.mark.parametrize(("rows", "size"), [(1, 1 << 20), (7, 1 << 20), (10_000, 1000), (10_000, 1)])
def test_batches_keep_to_their_limits(path: BatchPath, topic: str, rows: int, size: int) -> None:
    path.fill(topic, ["x" * 99] * 300)
    batches = list(path.consumer().read([split(topic, 0, 300)], max_rows=rows, max_bytes=size))
    table_of(batches)
    assert sum(batch.num_rows for batch in batches) == 300
    assert all(batch.num_rows <= min(rows, max(1, size // 99)) for batch in batches)


def test_two_splits_of_one_partition_are_refused(path: BatchPath, topic: str) -> None:
    with pytest.raises(InvalidArgument, match="two splits"):
        list(path.consumer().read([split(topic, 0, 1), split(topic, 1, 2)]))
    with pytest.raises(InvalidArgument, match="no such column"):
        path.consumer().read([split(topic, 0, 1)], columns=frozenset({"valeu"}))
