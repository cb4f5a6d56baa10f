"""The enumerator's rules, on a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sparkapp.clients.topics.topic_pattern import TopicPattern
from sparkapp.model.checkpoint.split import cut_at, splits_by_subtask
from sparkapp.model.errors import (
    AuthorizationFailed,
    KafkaAccessError,
    OffsetsOvertaken,
    OffsetsWentBackwards,
    TopicNotFound,
    TopicRecreated,
    UndefinedOffset,
)
from sparkapp.model.job.sections.source import OnDataLoss, OnTopicDeleted
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import MAX_BEGINNINGS
from sparkapp.source.enumerator.discovery import PartitionChange
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.lost_records import LostRecords
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import (
    PartitionSetSubscriber,
    Subscriber,
    TopicListSubscriber,
    TopicPatternSubscriber,
)
from sparkapp.source.enumerator.topic_identity import TopicIdentity
from sparkapp.source.offsets_initializer import (
    CommittedOffsetsInitializer,
    EarliestOffsetsInitializer,
    LatestOffsetsInitializer,
    NamedStopsInitializer,
    OffsetsInitializer,
    TimestampStopsInitializer,
    no_warning,
)
from tests.support.fakes.cluster_view import CountingView, FakeCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def enumerator(
    cluster: FakeCluster | CountingView,
    *,
    subscriber: Subscriber | None = None,
    initializer: OffsetsInitializer | None = None,
    stopping: OffsetsInitializer | None = None,
    interval: float = 0,
    max_offsets: int = 1000,
    max_rate: int = 0,
    ends_by_record: bool = False,
    deleted: OnTopicDeleted = OnTopicDeleted.FAIL,
    lost: OnDataLoss = OnDataLoss.FAIL,
    clock: list[float] | None = None,
    warnings: list[tuple[str, str]] | None = None,
) -> KafkaSourceEnumerator:
    time = clock if clock is not None else [0.0]
    heard = warnings if warnings is not None else []
    return KafkaSourceEnumerator(
        cluster=cluster,
        subscriber=subscriber or TopicListSubscriber(("a",)),
        starting=initializer or EarliestOffsetsInitializer(),
        options=EnumeratorOptions(
            stopping=stopping,
            discovery_interval=interval,
            max_offsets=max_offsets,
            max_rate=max_rate,
            ends_by_record=ends_by_record,
            interval=10,
            on_topic_deleted=deleted,
            on_data_loss=lost,
        ),
        warn=lambda reason, message: heard.append((reason, message)),
        clock=lambda: time[0],
    )


def cluster() -> FakeCluster:
    return FakeCluster({"a": 2, "b": 1}, {A0: 3}, {A0: 10, A1: 20, B0: 5}, {A0: 7})


def test_S15_first_start_latest_fixes_real_end_offsets() -> None:
    source = enumerator(cluster(), initializer=LatestOffsetsInitializer())
    source.start(None)
    assert source.offsets == {A0: 10, A1: 20}


def test_S23_group_offsets_without_a_reset_strategy_name_the_partition() -> None:
    source = enumerator(cluster(), initializer=CommittedOffsetsInitializer(ResetStrategy.FAIL))
    with pytest.raises(UndefinedOffset, match="Undefined offset with no reset policy for partition a-1"):
        source.start(None)


def test_beginnings_are_asked_for_the_partitions_that_are_read() -> None:
    source = enumerator(cluster())
    source.start(None)
    assert source.beginnings() == {A0: 3, A1: 0}


def test_beginnings_that_no_report_has_room_for_are_not_asked_for() -> None:
    for partitions, known in ((MAX_BEGINNINGS, MAX_BEGINNINGS), (MAX_BEGINNINGS + 1, 0)):
        source = enumerator(FakeCluster({"a": partitions}))
        source.start(None)
        assert len(source.beginnings()) == known


def test_S21_pattern_subscribes_to_whole_names_only() -> None:
    source = enumerator(FakeCluster({"a": 1, "ab": 1, "ba": 1}), subscriber=TopicPatternSubscriber(TopicPattern("a.*")))
    source.start(None)
    assert set(source.offsets) == {A0, TopicPartition("ab", 0)}


def test_a_first_start_with_nothing_to_read_is_refused() -> None:
    source = enumerator(cluster(), subscriber=TopicPatternSubscriber(TopicPattern("zzz")))
    with pytest.raises(TopicNotFound, match="matches no topic"):
        source.start(None)


def test_restored_partitions_continue_and_unknown_partitions_begin_earliest() -> None:
    heard: list[tuple[str, str]] = []
    source = enumerator(cluster(), initializer=LatestOffsetsInitializer(), warnings=heard)
    source.start({A1: 15})
    assert source.offsets == {A0: 3, A1: 15}
    assert heard[0][0] == "PartitionAdded"


def test_restored_partitions_that_no_longer_match_are_dropped_with_a_warning() -> None:
    heard: list[tuple[str, str]] = []
    source = enumerator(cluster(), warnings=heard)
    source.start({A0: 5, A1: 6, B0: 1})
    assert source.offsets == {A0: 5, A1: 6}
    assert [reason for reason, _ in heard] == ["PartitionRemoved"]
    assert "b-0" in heard[0][1]


def test_a_restored_partition_that_is_gone_is_an_error() -> None:
    source = enumerator(FakeCluster({"a": 1}, {}, {A0: 9}))
    with pytest.raises(TopicNotFound, match="a-1"):
        source.start({A0: 1, A1: 1})


def test_S26_plan_covers_every_partition_and_complete_moves_on() -> None:
    view = cluster()
    source = enumerator(view)
    source.start(None)
    assert source.pending is None, "case S26: nothing is known before the first plan"
    splits = source.plan()
    assert source.pending == {A0: 7, A1: 20}
    assert [(str(s.partition), s.start, s.stop) for s in splits] == [("a-0", 3, 10), ("a-1", 0, 20)]
    assert sum((source.pending or {}).values()) == 27
    source.complete(splits)
    assert source.offsets == {A0: 10, A1: 20}
    assert sum((source.pending or {}).values()) == 0
    assert source.pending == {A0: 0, A1: 0}
    assert all(split.size == 0 for split in source.plan())
    view.ends[A1] = 23
    assert [split.size for split in source.plan()] == [0, 3]
    assert source.pending == {A0: 0, A1: 3}


def test_S40_offsets_that_went_backwards_name_both() -> None:
    view = cluster()
    source = enumerator(view)
    source.start({A0: 500, A1: 0})
    with pytest.raises(OffsetsWentBackwards, match="offset was changed from 500 to 10"):
        source.plan()


@pytest.mark.parametrize("interval", [-1, 0])
def test_S02_S04_without_an_interval_topics_are_looked_for_once(interval: int) -> None:
    clock, grows = [0.0], FakeCluster({"a": 1})
    view = CountingView(grows)
    source = enumerator(view, interval=interval, clock=clock)
    assert view.listings == 0
    source.start(None)
    grows.partitions["a"] = 2
    clock[0] = 1e9
    assert source.discover_if_due() is None
    assert (view.listings, len(source.plan())) == (1, 1)
    assert source.no_more_new_partition_splits


def test_S03_S05_with_an_interval_topics_are_looked_for_again_and_again() -> None:
    clock, grows, heard = [0.0], FakeCluster({"a": 1}, {}, {A0: 4}), list[tuple[str, str]]()
    view = CountingView(grows)
    source = enumerator(view, interval=10, clock=clock, warnings=heard, initializer=LatestOffsetsInitializer())
    source.start(None)
    assert not source.no_more_new_partition_splits
    for number in (1, 2, 3):
        new = TopicPartition("a", number)
        grows.partitions["a"], grows.starts[new], grows.ends[new] = number + 1, 2, 3
        listings = view.listings
        clock[0] += 9.9
        assert source.discover_if_due() is None
        assert view.listings == listings, "it is not time"
        clock[0] += 0.1
        assert source.discover_if_due() == PartitionChange(frozenset({new}), frozenset())
        assert view.listings == listings + 1
        assert source.offsets[new] == 2, "what is new begins at its beginning, whatever the startup"
        assert [reason for reason, _ in heard] == ["PartitionAdded"] * number
        assert not source.no_more_new_partition_splits


def test_S21_exactly_the_named_partitions_are_read_and_discovery_adds_none() -> None:
    clock, view = [0.0], cluster()
    source = enumerator(view, subscriber=PartitionSetSubscriber(frozenset({A1, B0})), interval=30, clock=clock)
    source.start(None)
    view.partitions["a"] = 5
    clock[0] = 31.0
    assert source.discover_if_due() == PartitionChange(frozenset(), frozenset())
    assert set(source.offsets) == {A1, B0}


def test_restored_partitions_outside_a_named_set_are_dropped() -> None:
    heard: list[tuple[str, str]] = []
    source = enumerator(cluster(), subscriber=PartitionSetSubscriber(frozenset({A0})), warnings=heard)
    source.start({A0: 5, A1: 6})
    assert source.offsets == {A0: 5}
    assert "a-1" in heard[0][1]


def test_a_bounded_source_reads_exactly_to_its_stops_and_is_finished() -> None:
    view = cluster()
    source = enumerator(view, stopping=LatestOffsetsInitializer(), max_offsets=15)
    source.start(None)
    assert source.stops == {A0: 10, A1: 20}
    view.ends |= {A0: 1000, A1: 1000}
    read = 0
    while not source.finished:
        splits = source.plan()
        assert sum((source.pending or {}).values()) <= 27
        read += sum(split.size for split in splits)
        source.complete(splits)
    assert (read, sum((source.pending or {}).values())) == (27, 0)
    assert source.offsets == {A0: 10, A1: 20}
    assert not any(split.size for split in source.plan())


def test_a_source_that_ends_by_records_is_finished_when_each_partition_has_ended() -> None:
    clock, view = [0.0], cluster()
    source = enumerator(view, ends_by_record=True, interval=30, clock=clock)
    source.start(None)
    assert source.stops == {}
    clock[0] = 100.0
    assert source.discover_if_due() is None, "bounded"
    splits = source.plan()
    source.complete(cut_at(splits, {A0: 7}), {A0: 7})
    assert source.offsets == {A0: 7, A1: 20}
    assert not source.finished
    assert source.pending == {A0: 0, A1: 0}, "what follows an end is nobody's lag"
    view.ends |= {A0: 100, A1: 30}
    assert [(split.start, split.stop) for split in source.plan()] == [(7, 7), (20, 30)]
    source.complete(cut_at(source.plan(), {A1: 25}), {A1: 25})
    assert source.finished
    assert source.stops == {A0: 7, A1: 25}

    again = enumerator(view, ends_by_record=True)
    again.start(source.offsets, source.stops)
    assert again.finished
    lost = enumerator(view, ends_by_record=True)
    lost.start({A0: 7, A1: 20}, source.stops)
    assert [(split.start, split.stop) for split in lost.plan()] == [(7, 7), (20, 25)]


def test_a_record_may_end_a_partition_before_its_stop() -> None:
    source = enumerator(cluster(), stopping=NamedStopsInitializer({A0: 9, A1: 19}), ends_by_record=True)
    source.start(None)
    source.complete(cut_at(source.plan(), {A0: 5}), {A0: 5})
    assert source.finished
    assert source.stops == {A0: 5, A1: 19}


def test_S25_stops_at_or_before_the_start_are_finished_at_once() -> None:
    source = enumerator(
        cluster(), initializer=LatestOffsetsInitializer(), stopping=NamedStopsInitializer({A0: 10, A1: 0})
    )
    source.start(None)
    assert source.finished
    assert [split.size for split in source.plan()] == [0, 0]


@pytest.mark.parametrize("stopping", [LatestOffsetsInitializer(), NamedStopsInitializer({A0: 7}), None])
@pytest.mark.parametrize("stop", [100, None])
def test_what_subtasks_have_committed_is_not_lost(stop: int | None) -> None:
    """In the local pace the document is behind the group, where the next attempt resumes."""
    view = FakeCluster({"a": 2}, {}, {A0: 9_000, A1: 9_000})
    stops = {A0: stop, A1: 9_000} if stop else None
    source = enumerator(view, stopping=NamedStopsInitializer(stops) if stops else None)
    source.start({A0: 60, A1: 50}, stops)
    source.ahead({A0: 100, A1: 50})
    view.starts[A0] = 500 if stop else 100
    told = source.explain(OffsetsWentBackwards("reading a-1 at 50: out of range"))
    assert isinstance(told, OffsetsOvertaken)
