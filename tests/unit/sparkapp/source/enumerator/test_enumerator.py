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
@pytest.mark.parametrize("subscriber", [TopicListSubscriber(("a",)), TopicPatternSubscriber(TopicPattern("[ab]"))])
def test_a_partition_that_came_between_two_starts_of_a_bounded_source_is_not_read(
    stopping: OffsetsInitializer | None, subscriber: Subscriber
) -> None:
    heard: list[tuple[str, str]] = []
    source = enumerator(cluster(), subscriber=subscriber, stopping=stopping, ends_by_record=True, warnings=heard)
    source.start({A0: 5}, {A0: 7, B0: 3})
    assert source.stops == {A0: 7}
    assert [(split.start, split.stop) for split in source.plan()] == [(5, 7)]
    assert [reason for reason, _ in heard] == ["PartitionIgnored"]
    assert "a-1" in heard[0][1]


@pytest.mark.parametrize(
    "subscriber", [TopicListSubscriber(("a", "b")), PartitionSetSubscriber(frozenset({A0, A1, B0}))]
)
def test_what_a_changed_spec_asks_for_by_name_is_read_by_a_bounded_source(subscriber: Subscriber) -> None:
    source = enumerator(cluster(), subscriber=subscriber, stopping=LatestOffsetsInitializer())
    source.start({A0: 5, A1: 6}, {A0: 7, A1: 7})
    assert source.stops == {A0: 7, A1: 7, B0: 5}
    assert source.offsets[B0] == 0


@pytest.mark.parametrize("stop", [3, 900])
def test_a_stop_of_a_topic_that_was_gone_is_not_its_successors(stop: int) -> None:
    """Documents of releases before hold the stops of topics that their splits do not have."""
    source = enumerator(cluster(), subscriber=TopicListSubscriber(("a", "b")), stopping=LatestOffsetsInitializer())
    source.start({A0: 5, A1: 6}, {A0: 7, A1: 7, B0: stop})
    assert source.stops == {A0: 7, A1: 7, B0: 5}
    source.complete(source.plan())
    assert source.finished


def test_another_end_has_a_bounded_source_look_for_partitions_again() -> None:
    source = enumerator(cluster(), stopping=LatestOffsetsInitializer())
    source.start({A0: 5}, None)
    assert source.stops == {A0: 10, A1: 20}


def test_a_source_without_an_end_is_never_finished() -> None:
    source = enumerator(FakeCluster({"a": 1}))
    source.start(None)
    assert not source.finished


def test_a_removed_topic_fails_the_job_and_says_how_to_continue() -> None:
    clock, view = [0.0], cluster()
    source = enumerator(view, subscriber=TopicListSubscriber(("a", "b")), interval=30, clock=clock)
    source.start(None)
    del view.partitions["b"]
    clock[0] = 31.0
    with pytest.raises(TopicNotFound, match="b-0 no longer exists") as caught:
        source.discover_if_due()
    assert "onTopicDeleted" in caught.value.remedy


def test_a_removed_topic_is_forgotten_and_begins_earliest_when_it_comes_back() -> None:
    clock, heard = [0.0], list[tuple[str, str]]()
    view = cluster()
    source = enumerator(
        view, subscriber=TopicListSubscriber(("a", "b")), interval=30, clock=clock, warnings=heard,
        deleted=OnTopicDeleted.IGNORE,
    )  # fmt: skip
    source.start(None)
    source.complete(source.plan())
    del view.partitions["b"]
    clock[0] = 31.0
    change = source.discover_if_due()
    assert change is not None
    assert change.removed == {B0}
    assert set(source.offsets) == {A0, A1}
    assert heard == [("PartitionRemoved", "partition b-0 no longer exists on the Kafka brokers: not read")]
    view.partitions["b"], view.ends[B0] = 1, 2
    clock[0] = 62.0
    source.discover_if_due()
    assert source.offsets[B0] == 0


@pytest.mark.parametrize("deleted", OnTopicDeleted)
def test_a_topic_that_may_not_be_described_any_more_is_not_forgotten(deleted: OnTopicDeleted) -> None:
    """Forgotten, it would be read again from its beginning when the right is back: duplicates."""
    clock, heard, view = [0.0], list[tuple[str, str]](), cluster()
    topics = TopicListSubscriber(("a", "b"))
    source = enumerator(view, subscriber=topics, interval=30, clock=clock, warnings=heard, deleted=deleted)
    source.start(None)
    source.complete(source.plan())
    view.denied = {"b"}
    clock[0] = 31.0
    with pytest.raises(AuthorizationFailed, match="topic b"):
        source.discover_if_due()
    assert source.offsets[B0] == 5
    again = enumerator(view, subscriber=topics, interval=30, clock=clock, warnings=heard, deleted=deleted)
    with pytest.raises(AuthorizationFailed, match="topic b"):
        again.start(dict(source.offsets))
    view.denied = set()
    back = enumerator(view, subscriber=topics, interval=30, clock=clock, warnings=heard, deleted=deleted)
    back.start(dict(source.offsets))
    assert back.offsets == {A0: 10, A1: 20, B0: 5}
    assert heard == []


@pytest.mark.parametrize("deleted", OnTopicDeleted)
@pytest.mark.parametrize("restored", [None, {}, {A0: 4}], ids=["first start", "new subscription", "restart"])
@pytest.mark.parametrize(
    "subscriber", [TopicListSubscriber(("a", "b")), PartitionSetSubscriber(frozenset({A0, B0}))], ids=["topics", "set"]
)
def test_D16_a_topic_that_may_not_be_described_is_no_missing_one(
    subscriber: Subscriber, restored: dict[TopicPartition, int] | None, deleted: OnTopicDeleted
) -> None:
    view = cluster()
    view.denied = {"b"}
    with pytest.raises(AuthorizationFailed, match="topic b"):
        enumerator(view, subscriber=subscriber, deleted=deleted).start(restored)


def test_D16_a_topic_that_no_listing_has_is_read_by_its_name() -> None:
    """Kafka's own topics, which a pattern must not match."""
    view = cluster()
    view.unlisted = {"b"}
    source = enumerator(view, subscriber=TopicListSubscriber(("a", "b")))
    source.start(None)
    assert source.offsets == {A0: 3, A1: 0, B0: 0}
    pattern = enumerator(view, subscriber=TopicPatternSubscriber(TopicPattern(".")))
    pattern.start(None)
    assert pattern.offsets == {A0: 3, A1: 0}


def test_a_listing_that_lacks_a_topic_which_is_there_forgets_nothing() -> None:
    clock, heard, view = [0.0], list[tuple[str, str]](), cluster()
    source = enumerator(
        view, subscriber=TopicListSubscriber(("a", "b")), interval=30, clock=clock, warnings=heard,
        deleted=OnTopicDeleted.IGNORE,
    )  # fmt: skip
    source.start(None)
    source.complete(source.plan())
    view.unlisted = {"b"}
    clock[0] = 31.0
    assert source.discover_if_due() == PartitionChange(frozenset(), frozenset())
    again = enumerator(view, subscriber=TopicListSubscriber(("a", "b")), warnings=heard, deleted=OnTopicDeleted.IGNORE)
    again.start(dict(source.offsets))
    assert again.offsets == source.offsets == {A0: 10, A1: 20, B0: 5}
    assert heard == []


def test_every_topic_removed_is_idleness_where_the_job_says_so() -> None:
    source = enumerator(FakeCluster({}), deleted=OnTopicDeleted.IGNORE)
    source.start({A0: 5})
    assert source.plan() == ()
    assert sum((source.pending or {}).values()) == 0


def test_a_topic_removed_between_discoveries_is_noticed_by_the_plan() -> None:
    view = FakeCluster({"a": 2, "b": 1}, {}, {A0: 4})
    source = enumerator(view, subscriber=TopicListSubscriber(("a", "b")), deleted=OnTopicDeleted.IGNORE)
    source.start({A0: 0, A1: 0, B0: 0})
    view.delete("b")
    assert [split.stop for split in source.plan()] == [4, 0]


@pytest.mark.parametrize("bounded", [False, True])
def test_S04_S30_a_topic_that_is_gone_is_no_reason_to_look_for_new_partitions(bounded: bool) -> None:
    view = FakeCluster({"a": 1, "b": 1}, {}, {A0: 4})
    source = enumerator(
        view, subscriber=TopicListSubscriber(("a", "b")), deleted=OnTopicDeleted.IGNORE,
        stopping=LatestOffsetsInitializer() if bounded else None,
    )  # fmt: skip
    source.start(None)
    view.delete("b")
    view.grow("a", 1)
    view.ends[A1] = 7
    assert [(split.partition, split.stop) for split in source.plan()] == [(A0, 4)]


def test_S40_offsets_that_went_backwards_continue_where_the_job_says_so() -> None:
    heard: list[tuple[str, str]] = []
    view = cluster()
    source = enumerator(view, warnings=heard, lost=OnDataLoss.SKIP_TO_AVAILABLE)
    source.start({A0: 500, A1: 0})
    assert [(split.start, split.stop) for split in source.plan()] == [(3, 10), (0, 20)]
    assert heard[0][0] == "OffsetsSkipped"
    assert "500" in heard[0][1]


def test_records_that_retention_took_are_skipped_at_a_restart_where_the_job_says_so() -> None:
    heard: list[tuple[str, str]] = []
    source = enumerator(cluster(), warnings=heard, lost=OnDataLoss.SKIP_TO_AVAILABLE)
    source.start({A0: 1, A1: 4})
    assert source.offsets == {A0: 3, A1: 4}
    assert [reason for reason, _ in heard] == ["OffsetsSkipped"]


def test_records_that_retention_took_are_skipped_where_the_job_says_so() -> None:
    heard: list[tuple[str, str]] = []
    view = cluster()
    source = enumerator(view, warnings=heard, lost=OnDataLoss.SKIP_TO_AVAILABLE, max_offsets=10)
    source.start(None)
    source.complete(source.plan())
    before = dict(source.offsets)
    view.starts[A1] = before[A1] + 6
    splits = source.plan()
    assert {split.partition: split.start for split in splits} == {A0: before[A0], A1: before[A1] + 6}
    assert [reason for reason, _ in heard] == ["OffsetsSkipped"]
    assert f"{A1}: records from offset {before[A1]} on are gone" in heard[0][1]
    assert "6 offset(s) skipped" in heard[0][1]
    source.complete(splits)
    source.plan()
    assert len(heard) == 1, "reported once"


def test_a_partition_that_retention_emptied_is_skipped_to_its_end() -> None:
    view = cluster()
    source = enumerator(view, lost=OnDataLoss.SKIP_TO_AVAILABLE)
    source.start(None)
    view.starts[A1] = 20
    assert [(split.start, split.stop) for split in source.plan()] == [(3, 10), (20, 20)]
    assert (source.pending or {})[A1] == 0


def test_the_beginnings_of_logs_are_asked_for_only_where_the_job_skips() -> None:
    for policy, asked in ((OnDataLoss.FAIL, []), (OnDataLoss.SKIP_TO_AVAILABLE, [[A1]])):
        view = cluster()
        source = enumerator(view, lost=policy, initializer=LatestOffsetsInitializer())
        source.start(None)
        view.ends[A1] = 21
        view.asked_earliest.clear()
        source.plan()
        assert view.asked_earliest == asked


def test_a_start_below_the_log_is_skipped_by_the_first_plan() -> None:
    heard: list[tuple[str, str]] = []
    view = cluster()
    source = enumerator(
        view, initializer=CommittedOffsetsInitializer(ResetStrategy.FAIL), warnings=heard,
        lost=OnDataLoss.SKIP_TO_AVAILABLE,
    )  # fmt: skip
    view.commits = {A0: 7, A1: 4}
    source.start(None)
    view.starts |= {A0: 9, A1: 5}  # before anything is planned
    assert [(split.start, split.stop) for split in source.plan()] == [(9, 10), (5, 20)]
    assert [reason for reason, _ in heard] == ["OffsetsSkipped", "OffsetsSkipped"]


@pytest.mark.parametrize("policy", OnDataLoss)
def test_an_offset_behind_an_open_transaction_waits_for_its_end(policy: OnDataLoss) -> None:
    """A group that another consumer has moved past an open transaction: nothing went backwards, nothing is lost."""
    view = cluster()
    view.commits, view.unstable = {A0: 7, A1: 24}, {A1: 6}
    heard: list[tuple[str, str]] = []
    source = enumerator(
        view, initializer=CommittedOffsetsInitializer(ResetStrategy.EARLIEST), lost=policy, warnings=heard
    )
    source.start(None)
    assert [(split.start, split.stop) for split in source.plan()] == [(7, 10), (24, 24)]
    assert (source.pending or {})[A1] == 0
    view.ends[A1], view.unstable = 27, {}
    assert [(split.start, split.stop) for split in source.plan()] == [(7, 10), (24, 27)]
    assert heard == []


@pytest.mark.parametrize("millis", [1000, 2000])
def test_a_stop_behind_an_open_transaction_waits_for_its_end(millis: int) -> None:
    """Records 10 to 14 are in the transaction, and earlier than the time. Of 15 to 19 some may not be."""
    times = [*range(10), *range(500, 505), *range(1000, 1005)]
    view = FakeCluster({"a": 1}, {}, {A0: 10}, times={A0: times}, unstable={A0: 10})
    source = enumerator(view, stopping=TimestampStopsInitializer(millis))
    source.start(None)
    stop = 15 if millis == 1000 else 20
    for start, end in ((0, 10), (10, 10)):
        splits = source.plan()
        assert [(split.start, split.stop) for split in splits] == [(start, end)]
        source.complete(splits)
        assert not source.finished
    view.ends[A0], view.unstable = 20, {}
    splits = source.plan()
    assert [(split.start, split.stop) for split in splits] == [(10, stop)]
    source.complete(splits)
    assert source.finished


@pytest.mark.parametrize("policy", OnDataLoss)
def test_what_a_reader_did_not_find_is_reported_with_both_offsets(policy: OnDataLoss) -> None:
    """Retention between the plan and the read: the next attempt skips, or a person has to say so."""
    view = cluster()
    source = enumerator(view, lost=policy)
    source.start(None)
    source.plan()
    view.starts[A1] = 8
    explained = source.explain(OffsetsWentBackwards("reading a-1 at 0 of 20: out of range"))
    assert "a-1: records from offset 0 on are gone, the log begins at 8" in explained.message
    assert explained.reason == "OffsetsWentBackwards"
    assert explained.fatal is (policy is OnDataLoss.FAIL)
    if policy is OnDataLoss.FAIL:
        assert "onDataLoss" in explained.remedy


def test_a_member_of_a_group_gets_the_command_that_moves_the_group() -> None:
    """``SkipToAvailable`` is refused there: it would skip for the whole group."""
    view = cluster()
    identity = TopicIdentity(view, OnDataLoss.FAIL)
    lost = LostRecords(view, OnDataLoss.FAIL, no_warning, identity, is_member=True)
    explained = lost.explain(OffsetsWentBackwards("reading a-0 at 1 of 10: out of range"), {A0: 1}, {})
    assert explained.message == "a-0: records from offset 1 on are gone, the log begins at 3"
    assert "kafka-consumer-groups --reset-offsets" in explained.remedy
    assert "SkipToAvailable" not in explained.remedy


@pytest.mark.parametrize("lost", OnDataLoss)
@pytest.mark.parametrize(
    ("seen", "agreed", "undecided", "confirms"),
    [(19, 19, False, True), (20, 20, False, False), (15, 20, False, False), (15, 15, True, False)],
)
def test_a_reader_beyond_the_log_is_believed_if_the_brokers_confirm_it(
    lost: OnDataLoss, seen: int, agreed: int, undecided: bool, confirms: bool
) -> None:
    """It may have asked a leader that was replaced. The next attempt asks again."""
    view = cluster()
    source = enumerator(view, lost=lost)
    source.start({A0: 10, A1: 20})
    error = OffsetsWentBackwards("reading a-1 at 20 of 60: out of range")
    view.replaced[A1], view.ends[A1], view.undecided = seen, agreed, undecided
    explained = source.explain(error)
    assert explained.message == error.message
    assert explained.fatal is (confirms and lost is OnDataLoss.FAIL)


@pytest.mark.parametrize(("start", "end"), [(500, 700), (0, 90)], ids=["retention", "truncation"])
@pytest.mark.parametrize("policy", OnDataLoss)
def test_what_goes_behind_a_stop_proves_no_readers_error(policy: OnDataLoss, start: int, end: int) -> None:
    """A partition is read to its stop. The reader of another asked a leader that was replaced."""
    view = FakeCluster({"a": 2}, {}, {A0: 100, A1: 9_000})
    source = enumerator(view, stopping=LatestOffsetsInitializer(), lost=policy)
    source.start({A0: 100, A1: 50}, {A0: 100, A1: 9_000})
    source.complete(source.plan())
    view.starts[A0], view.ends[A0] = start, end
    told = source.explain(OffsetsWentBackwards("reading a-1 at 1050 of 2050: out of range"))
    assert isinstance(told, OffsetsOvertaken)
    assert told.message == "reading a-1 at 1050 of 2050: out of range"
    assert [split.start for split in source.plan()] == [100, 1050], "nor does the plan call it lost"
    assert not source.finished


@pytest.mark.parametrize("stops", [{A0: 100, A1: 900}, None], ids=["of the checkpoint", "of another end"])
def test_a_restart_skips_nothing_behind_a_stop(stops: dict[TopicPartition, int] | None) -> None:
    heard: list[tuple[str, str]] = []
    source = enumerator(
        FakeCluster({"a": 2}, {A0: 500}, {A0: 700, A1: 900}), stopping=NamedStopsInitializer({A0: 100, A1: 900}),
        lost=OnDataLoss.SKIP_TO_AVAILABLE, warnings=heard,
    )  # fmt: skip
    source.start({A0: 100, A1: 50}, stops)
    assert heard == []
    assert source.offsets == {A0: 100, A1: 50}


def test_a_partition_that_retention_took_beyond_its_stop_resumes_at_the_stop() -> None:
    """At a restart, and of a running job: what follows the stop was never to be read."""
    for taken_before in (True, False):
        heard: list[tuple[str, str]] = []
        view = FakeCluster({"a": 1}, {}, {A0: 700})
        source = enumerator(
            view, stopping=NamedStopsInitializer({A0: 100}), lost=OnDataLoss.SKIP_TO_AVAILABLE, warnings=heard
        )
        if taken_before:
            view.starts[A0] = 500
        source.start({A0: 60}, {A0: 100})
        view.starts[A0] = 500
        assert [(split.start, split.stop) for split in source.plan()] == [(100, 100)]
        assert source.finished
        assert [reason for reason, _ in heard] == ["OffsetsSkipped"]
        assert heard[0][1].endswith("The job resumes at 100, the stopping offset, 40 offset(s) skipped")


def test_the_rate_of_a_partition_bounds_its_share_of_the_time_that_has_passed() -> None:
    clock, view = [0.0], FakeCluster({"a": 2}, {}, {A0: 10_000, A1: 50})
    source = enumerator(view, max_offsets=10**6, max_rate=7, clock=clock)
    source.start(None)
    first = source.plan()
    assert [split.size for split in first] == [70, 50], "the first checkpoint has an interval's share"
    source.complete(first)
    assert sum((source.pending or {}).values()) == 9930
    clock[0] = 3.0
    assert [split.size for split in source.plan()] == [21, 0]
    assert [split.size for split in source.plan()] == [0, 0], "the plan has taken it"
    clock[0] = 3.125
    assert [split.size for split in source.plan()] == [0, 0]
    clock[0] = 3.25
    assert [split.size for split in source.plan()] == [1, 0], "of the two plans together"


def test_S36_idle_subtasks_and_empty_partitions_end_a_bounded_source() -> None:
    view = FakeCluster({"a": 3}, {}, {A1: 5})
    source = enumerator(view, stopping=LatestOffsetsInitializer())
    source.start(None)
    splits = source.plan()
    assert [sum(split.size for split in mine) for mine in splits_by_subtask(splits, 16).values()] == [5]
    assert not source.finished
    source.complete(splits)
    assert source.finished
    empty = enumerator(FakeCluster({"a": 4}), stopping=LatestOffsetsInitializer())
    empty.start(None)
    assert empty.finished


def test_the_lag_of_a_start_is_known_before_anything_is_planned() -> None:
    source = enumerator(cluster(), stopping=NamedStopsInitializer({A0: 5, A1: 100}))
    source.start(None)
    assert source.pending is None
    source.look()
    assert source.pending == {A0: 2, A1: 20}


OLD, NEW = {"a": "AAAAAAAAAB"}, {"a": "AAAAAAAAAC"}


def test_a_topic_with_another_id_is_refused_though_it_has_outgrown_the_offset() -> None:
    view = cluster()
    view.ids = NEW
    source = enumerator(view)
    with pytest.raises(TopicRecreated, match=r"topic 'a' \(id AAAAAAAAAB…, now AAAAAAAAAC…\) was recreated") as caught:
        source.start({A0: 5, A1: 6}, topic_ids=OLD)
    assert caught.value.fatal
    assert "SkipToAvailable" in caught.value.remedy


@pytest.mark.parametrize("stopping", [None, LatestOffsetsInitializer()])
def test_a_recreated_topic_is_read_from_its_beginning_where_the_job_skips(stopping: OffsetsInitializer | None) -> None:
    heard: list[tuple[str, str]] = []
    view = cluster()
    view.ids = NEW
    source = enumerator(view, lost=OnDataLoss.SKIP_TO_AVAILABLE, stopping=stopping, warnings=heard)
    source.start({A0: 5, A1: 6}, {A0: 7, A1: 7} if stopping else None, topic_ids=OLD)
    assert source.offsets == {A0: 3, A1: 0}
    assert source.stops == ({A0: 10, A1: 20} if stopping else {}), "the previous topic's ends mean nothing"
    assert source.topic_ids == NEW
    assert [reason for reason, _ in heard] == ["TopicRecreated", "TopicRecreated"]
    again = enumerator(view)
    again.start(source.offsets, source.stops, source.topic_ids)
    assert again.offsets == source.offsets


@pytest.mark.parametrize("policy", OnDataLoss)
def test_a_discovery_notices_a_recreated_topic(policy: OnDataLoss) -> None:
    clock, view = [0.0], cluster()
    view.ids = dict(OLD)
    source = enumerator(view, interval=30, clock=clock, lost=policy)
    source.start(None)
    source.complete(source.plan())
    clock[0], view.ids = 31.0, NEW
    if policy is OnDataLoss.FAIL:
        with pytest.raises(TopicRecreated):
            source.discover_if_due()
        assert source.topic_ids == OLD, "the checkpoint keeps the topic ids of its offsets"
    else:
        source.discover_if_due()
        assert source.offsets == {A0: 3, A1: 0}


class AnsweringCluster(FakeCluster):
    """The beginning of a partition that does not exist is an error, as the brokers' answer is."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        if any(each.partition >= self.partitions.get(each.topic, 0) for each in wanted):
            raise TopicNotFound("listing offsets: UNKNOWN_TOPIC_OR_PART")
        return super().earliest(wanted)


def test_a_recreated_topic_with_fewer_partitions_is_read_where_the_job_says_so() -> None:
    clock = [0.0]
    view = AnsweringCluster({"a": 2}, {A0: 3}, {A0: 10, A1: 20}, ids=dict(OLD))
    source = enumerator(
        view, interval=30, clock=clock, lost=OnDataLoss.SKIP_TO_AVAILABLE, deleted=OnTopicDeleted.IGNORE
    )
    source.start(None)
    source.complete(source.plan())
    clock[0], view.ids, view.partitions["a"] = 31.0, NEW, 1
    assert source.discover_if_due() == PartitionChange(frozenset(), frozenset({A1}), frozenset({"a"}))
    assert source.offsets == {A0: 3}


@pytest.mark.parametrize("policy", OnDataLoss)
def test_a_recreated_topic_that_is_still_shorter_is_known_by_its_id_at_once(policy: OnDataLoss) -> None:
    view = cluster()
    view.ids = dict(OLD)
    source = enumerator(view, lost=policy)
    source.start({A0: 9, A1: 20})
    view.ids, view.starts, view.ends = NEW, {}, {A0: 4, A1: 30}
    if policy is OnDataLoss.FAIL:
        with pytest.raises(TopicRecreated):
            source.plan()
    else:
        # The other partition has grown beyond its offset: only the id shows it.
        assert [(split.start, split.stop) for split in source.plan()] == [(0, 4), (0, 30)]


def test_a_bounded_job_reads_a_recreated_topic_up_to_its_own_end() -> None:
    view = cluster()
    view.ids = dict(OLD)
    lost, stopping = OnDataLoss.SKIP_TO_AVAILABLE, LatestOffsetsInitializer()
    source = enumerator(view, lost=lost, stopping=stopping)
    source.start({A0: 6, A1: 20}, {A0: 10, A1: 20}, topic_ids=OLD)
    view.ids, view.starts, view.ends = NEW, {}, {A0: 4, A1: 0}
    with pytest.raises(OffsetsOvertaken, match="topic a was recreated") as caught:
        source.plan()
    assert not caught.value.fatal
    assert source.explain(caught.value) is caught.value, "no retention is to be raised"
    again = enumerator(view, lost=lost, stopping=stopping)
    again.start(source.offsets, source.stops, topic_ids=OLD)
    assert (again.offsets, again.stops) == ({A0: 0, A1: 0}, {A0: 4, A1: 0})
    again.complete(again.plan())
    assert again.finished


def test_the_same_where_a_discovery_finds_fewer_partitions() -> None:
    view = AnsweringCluster({"a": 2}, {A0: 3}, {A0: 10, A1: 20}, ids=dict(OLD))
    source = enumerator(
        view, lost=OnDataLoss.SKIP_TO_AVAILABLE, deleted=OnTopicDeleted.IGNORE, stopping=LatestOffsetsInitializer()
    )
    source.start({A0: 6, A1: 20}, {A0: 10, A1: 20}, topic_ids=OLD)
    view.ids, view.partitions["a"] = NEW, 1
    with pytest.raises(OffsetsOvertaken, match="topic a was recreated"):
        source.discover()


@pytest.mark.parametrize("ids", [{}, OLD])
def test_ids_that_are_not_known_are_learned_and_prove_nothing(ids: dict[str, str]) -> None:
    view = cluster()
    view.ids = ids
    source = enumerator(view)
    source.start({A0: 5, A1: 6})
    assert source.offsets == {A0: 5, A1: 6}
    assert source.topic_ids == ids
    view.ids = {}
    again = enumerator(view)
    again.start({A0: 5, A1: 6}, topic_ids=OLD)
    assert again.topic_ids == OLD, "brokers that give none do not take it away"


def test_a_truncated_log_is_not_read_from_its_beginning() -> None:
    heard: list[tuple[str, str]] = []
    view = cluster()
    view.ids = OLD
    source = enumerator(view, lost=OnDataLoss.SKIP_TO_AVAILABLE, warnings=heard)
    source.start({A0: 10, A1: 25}, topic_ids=OLD)
    assert [(split.start, split.stop) for split in source.plan()] == [(10, 10), (20, 20)]
    assert [reason for reason, _ in heard] == ["OffsetsSkipped"]
    assert "a-1: its log was truncated to 20, before offset 25" in heard[0][1]
    failing = enumerator(view)
    failing.start({A0: 10, A1: 25}, topic_ids=OLD)
    with pytest.raises(OffsetsWentBackwards, match="its log was truncated"):
        failing.plan()


@pytest.mark.parametrize("ids", [{}, OLD])
@pytest.mark.parametrize("policy", OnDataLoss)
def test_an_end_of_a_replaced_leader_is_no_truncated_log(policy: OnDataLoss, ids: dict[str, str]) -> None:
    """The subtasks have read beyond it at its successor, and the driver still asks the replaced leader."""
    heard: list[tuple[str, str]] = []
    view = cluster()
    view.ids, view.ends[A1] = ids, 1000
    source = enumerator(view, lost=policy, warnings=heard)
    source.start({A0: 10, A1: 1000}, topic_ids=ids)
    view.replaced[A1] = 900
    assert [(split.start, split.stop) for split in source.plan()] == [(10, 10), (1000, 1000)]
    assert (source.pending or {})[A1] == 0
    view.ends[A1] = 1003
    view.replaced.clear()
    assert [(split.start, split.stop) for split in source.plan()] == [(10, 10), (1000, 1003)]
    assert heard == []


@pytest.mark.parametrize("policy", OnDataLoss)
def test_a_log_ends_before_its_offset_only_where_the_brokers_agree_on_its_leader(policy: OnDataLoss) -> None:
    heard: list[tuple[str, str]] = []
    view = cluster()
    view.ids, view.undecided = OLD, True
    source = enumerator(view, lost=policy, warnings=heard)
    source.start({A0: 10, A1: 25}, topic_ids=OLD)
    with pytest.raises(KafkaAccessError, match="do not agree") as caught:
        source.plan()
    assert not caught.value.fatal
    assert source.offsets == {A0: 10, A1: 25}
    assert heard == []


def test_a_truncated_log_resumes_at_the_end_that_its_leader_confirms() -> None:
    view = cluster()
    view.ids, view.replaced[A1] = OLD, 12
    source = enumerator(view, lost=OnDataLoss.SKIP_TO_AVAILABLE)
    source.start({A0: 10, A1: 25}, topic_ids=OLD)
    assert [(split.start, split.stop) for split in source.plan()] == [(10, 10), (20, 20)]


def test_all_brokers_are_asked_only_where_a_log_seems_to_end_before_its_offset() -> None:
    view = cluster()
    view.commits, view.unstable = {A0: 7, A1: 24}, {A1: 6}
    source = enumerator(view, initializer=CommittedOffsetsInitializer(ResetStrategy.EARLIEST))
    source.start(None)
    source.plan()
    assert view.asked_each == [], "an open transaction explains it"
    view.unstable, view.ends[A1] = {}, 24
    view.replaced[A1] = 23
    source.plan()
    assert view.asked_each == [[A1]]


def test_a_checkpoint_may_be_planned_behind_one_that_is_not_complete() -> None:
    view = cluster()
    source = enumerator(view, max_offsets=15, stopping=LatestOffsetsInitializer())
    source.start(None)
    first = source.plan()
    source.begin(first)
    second = source.plan()
    source.begin(second)
    assert [split.start for split in second] == [split.stop for split in first]
    assert [(split.start, split.size) for split in source.plan()] == [(split.stop, 0) for split in second]
    assert source.offsets == {A0: 3, A1: 0}, "nothing is complete"
    assert source.pending == {A0: 7, A1: 20}
    assert not source.finished
    view.starts[A1] = 1
    error = source.explain(OffsetsWentBackwards("reading a-1 at 0 of 20: out of range"))
    assert "a-1: records from offset 0 on are gone" in error.message
    source.complete(first)
    assert source.offsets == {split.partition: split.stop for split in first}
    assert not source.finished
    source.complete(second)
    assert source.pending == {A0: 0, A1: 0}
    assert source.finished


@pytest.mark.parametrize("subscriber", [TopicListSubscriber(("a",)), TopicPatternSubscriber(TopicPattern("a"))])
def test_a_bounded_job_reads_each_partition_of_a_recreated_topic(
    subscriber: TopicListSubscriber | TopicPatternSubscriber,
) -> None:
    """It has more partitions than before; a partition that is added to the same topic would be left out."""
    added = TopicPartition("a", 2)
    view = FakeCluster({"a": 3}, {}, {A0: 10, A1: 20, added: 30}, ids=NEW)
    source = enumerator(
        view, subscriber=subscriber, lost=OnDataLoss.SKIP_TO_AVAILABLE, stopping=LatestOffsetsInitializer()
    )
    source.start({A0: 5, A1: 6}, {A0: 7, A1: 7}, topic_ids=OLD)
    assert source.offsets == {A0: 0, A1: 0, added: 0}
    assert source.stops == {A0: 10, A1: 20, added: 30}


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
