"""Which partitions stay assigned from read to read, and which are assigned again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkapp.dataplane.partition_queue import IDLE_READS, PartitionQueue, assign, split_by_partition
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition


def split(partition: int, start: int, stop: int) -> KafkaPartitionSplit:
    return KafkaPartitionSplit(TopicPartition("t", partition), start, stop)


def test_a_split_that_continues_changes_nothing() -> None:
    queues: dict[TopicPartition, PartitionQueue] = {}
    assert assign(queues, [split(0, 0, 10)]).add == (split(0, 0, 10),)
    queues[TopicPartition("t", 0)].position = 10
    change = assign(queues, [split(0, 10, 20)])
    assert (change.drop, change.add) == ((), ())


def test_a_split_that_starts_elsewhere_is_assigned_again() -> None:
    queues: dict[TopicPartition, PartitionQueue] = {}
    assign(queues, [split(0, 0, 10)])
    change = assign(queues, [split(0, 5, 20)])
    assert change.drop == (TopicPartition("t", 0),)
    assert change.add == (split(0, 5, 20),)
    assert queues[TopicPartition("t", 0)].position == 5


def test_an_idle_partition_is_given_back_after_a_while_only() -> None:
    queues: dict[TopicPartition, PartitionQueue] = {}
    assign(queues, [split(0, 0, 10), split(1, 0, 10)])
    for _ in range(IDLE_READS - 1):
        assert assign(queues, [split(1, 0, 10)]).drop == ()
    assert assign(queues, [split(0, 0, 10), split(1, 0, 10)]).drop == ()
    for _ in range(IDLE_READS - 1):
        assert assign(queues, [split(1, 0, 10)]).drop == ()
    assert assign(queues, [split(1, 0, 10)]).drop == (TopicPartition("t", 0),)
    assert set(queues) == {TopicPartition("t", 1)}


def test_S25_empty_splits_are_not_assigned() -> None:
    queues: dict[TopicPartition, PartitionQueue] = {}
    change = assign(queues, [split(0, 10, 10), split(1, 0, 0)])
    assert (change.add, queues) == ((), {})
    assert split_by_partition([split(0, 10, 10), split(0, 10, 11)]) == {TopicPartition("t", 0): split(0, 10, 11)}


def test_two_splits_of_a_partition_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="two splits of t-0"):
        assign({}, [split(0, 0, 1), split(0, 5, 6)])


@settings(max_examples=40)
@given(
    st.lists(
        st.dictionaries(st.integers(0, 4), st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5), max_size=40
    )
)
def test_what_is_assigned_is_what_the_changes_add_up_to(reads: list[dict[int, tuple[int, int]]]) -> None:
    queues: dict[TopicPartition, PartitionQueue] = {}
    assigned: dict[TopicPartition, int] = {}
    for read in reads:
        splits = [split(number, start, start + size) for number, (start, size) in read.items()]
        change = assign(queues, splits)
        for partition in change.drop:
            del assigned[partition]
        for added in change.add:
            assert added.partition not in assigned
            assigned[added.partition] = added.start
        assert assigned == {partition: queue.position for partition, queue in queues.items()}
        for wanted in splits:
            if wanted.size:
                assert assigned[wanted.partition] == wanted.start
                assigned[wanted.partition] = queues[wanted.partition].position = wanted.stop
