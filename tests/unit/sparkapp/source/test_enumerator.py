"""The enumerator's rules, on a cluster in memory."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.errors import OffsetsWentBackwards, TopicNotFound, UndefinedOffset
from sparkapp.model.job import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator import KafkaSourceEnumerator, shares
from sparkapp.source.offsets_initializer import (
    CommittedOffsetsInitializer,
    EarliestOffsetsInitializer,
    LatestOffsetsInitializer,
    OffsetsInitializer,
)
from sparkapp.source.subscriber import Subscriber, TopicListSubscriber, TopicPatternSubscriber
from tests.support.fake_cluster import FakeCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def enumerator(
    cluster: FakeCluster,
    *,
    subscriber: Subscriber | None = None,
    initializer: OffsetsInitializer | None = None,
    interval: float = 0,
    max_offsets: int = 1000,
    clock: list[float] | None = None,
    warnings: list[tuple[str, str]] | None = None,
) -> KafkaSourceEnumerator:
    time = clock if clock is not None else [0.0]
    heard = warnings if warnings is not None else []
    return KafkaSourceEnumerator(
        cluster=cluster,
        subscriber=subscriber or TopicListSubscriber(("a",)),
        initializer=initializer or EarliestOffsetsInitializer(),
        discovery_interval=interval,
        max_offsets=max_offsets,
        warn=lambda reason, message: heard.append((reason, message)),
        clock=lambda: time[0],
    )


def cluster() -> FakeCluster:
    return FakeCluster({"a": 2, "b": 1}, {A0: 3}, {A0: 10, A1: 20, B0: 5}, {A0: 7})


def test_first_start_earliest_begins_at_the_log_start() -> None:
    one = enumerator(cluster())
    one.start(None)
    assert one.offsets == {A0: 3, A1: 0}


def test_S15_first_start_latest_fixes_real_end_offsets() -> None:
    one = enumerator(cluster(), initializer=LatestOffsetsInitializer())
    one.start(None)
    assert one.offsets == {A0: 10, A1: 20}


def test_S24_group_offsets_with_reset_strategy_for_the_rest() -> None:
    for strategy, expected in ((ResetStrategy.EARLIEST, 0), (ResetStrategy.LATEST, 20)):
        one = enumerator(cluster(), initializer=CommittedOffsetsInitializer(strategy))
        one.start(None)
        assert one.offsets == {A0: 7, A1: expected}


def test_S23_group_offsets_without_a_reset_strategy_name_the_partition() -> None:
    one = enumerator(cluster(), initializer=CommittedOffsetsInitializer(ResetStrategy.NONE))
    with pytest.raises(UndefinedOffset, match="Undefined offset with no reset policy for partition a-1"):
        one.start(None)


def test_S21_pattern_subscribes_to_whole_names_only() -> None:
    one = enumerator(FakeCluster({"a": 1, "ab": 1, "ba": 1}), subscriber=TopicPatternSubscriber(re.compile("a.*")))
    one.start(None)
    assert set(one.offsets) == {A0, TopicPartition("ab", 0)}


def test_a_first_start_with_nothing_to_read_is_refused() -> None:
    one = enumerator(cluster(), subscriber=TopicPatternSubscriber(re.compile("zzz")))
    with pytest.raises(TopicNotFound, match="matches no topic"):
        one.start(None)


def test_S22_a_missing_topic_is_named() -> None:
    one = enumerator(cluster(), subscriber=TopicListSubscriber(("a", "gone")))
    with pytest.raises(TopicNotFound, match="'gone'"):
        one.start(None)


def test_restored_partitions_go_on_and_unknown_ones_begin_earliest_whatever_the_startup() -> None:
    heard: list[tuple[str, str]] = []
    one = enumerator(cluster(), initializer=LatestOffsetsInitializer(), warnings=heard)
    one.start({A1: 15})
    assert one.offsets == {A0: 3, A1: 15}
    assert heard[0][0] == "PartitionAdded"


def test_restored_partitions_that_no_longer_match_are_dropped_with_a_warning() -> None:
    heard: list[tuple[str, str]] = []
    one = enumerator(cluster(), warnings=heard)
    one.start({A0: 5, A1: 6, B0: 1})
    assert one.offsets == {A0: 5, A1: 6}
    assert [reason for reason, _ in heard] == ["PartitionRemoved"]
    assert "b-0" in heard[0][1]


def test_a_restored_partition_that_is_gone_is_an_error() -> None:
    one = enumerator(FakeCluster({"a": 1}, {}, {A0: 9}))
    with pytest.raises(TopicNotFound, match="a-1"):
        one.start({A0: 1, A1: 1})


def test_plan_covers_every_partition_and_complete_moves_on() -> None:
    one = enumerator(cluster())
    one.start(None)
    assert one.pending is None, "case S26: nothing is known before the first plan"
    assert one.lag == 0
    splits = one.plan()
    assert one.pending == {A0: 7, A1: 20}
    assert [(str(s.partition), s.start, s.stop) for s in splits] == [("a-0", 3, 10), ("a-1", 0, 20)]
    assert one.lag == 27
    one.complete(splits)
    assert one.offsets == {A0: 10, A1: 20}
    assert one.lag == 0
    assert one.pending == {A0: 0, A1: 0}
    assert all(split.size == 0 for split in one.plan())


def test_S40_offsets_that_went_backwards_name_both() -> None:
    view = cluster()
    one = enumerator(view)
    one.start({A0: 500, A1: 0})
    with pytest.raises(OffsetsWentBackwards, match="offset was changed from 500 to 10"):
        one.plan()


def test_discovery_waits_for_its_interval_and_starts_new_partitions_earliest() -> None:
    clock, view, heard = [0.0], FakeCluster({"a": 1}, {}, {A0: 4}), list[tuple[str, str]]()
    one = enumerator(view, interval=30, clock=clock, warnings=heard, initializer=LatestOffsetsInitializer())
    one.start(None)
    view.partitions["a"], view.starts[A1], view.ends[A1] = 2, 2, 9
    assert one.discover_if_due() is None
    clock[0] = 30.0
    change = one.discover_if_due()
    assert change is not None
    assert change.new == {A1}
    assert one.offsets == {A0: 4, A1: 2}
    assert heard[0][0] == "PartitionAdded"


def test_S04_no_interval_discovers_once() -> None:
    clock, view = [0.0], FakeCluster({"a": 1})
    one = enumerator(view, interval=0, clock=clock)
    one.start(None)
    view.partitions["a"] = 2
    clock[0] = 1e9
    assert one.discover_if_due() is None


def test_S39_the_cap_is_shared_in_proportion_to_lag() -> None:
    assert shares({A0: 300, A1: 100}, 100) == {A0: 75, A1: 25}
    assert shares({A0: 30, A1: 10}, 100) == {A0: 30, A1: 10}


@given(
    st.dictionaries(st.integers(0, 40).map(lambda n: TopicPartition("t", n)), st.integers(0, 10**7), min_size=1),
    st.integers(1, 10**6),
)
def test_S39_shares_never_exceed_the_cap_or_a_backlog(backlog: dict[TopicPartition, int], limit: int) -> None:
    result = shares(backlog, limit)
    assert sum(result.values()) == min(limit, sum(backlog.values()))
    assert all(0 <= result[one] <= size for one, size in backlog.items())
