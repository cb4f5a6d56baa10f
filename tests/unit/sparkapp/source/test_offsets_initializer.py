"""Starting and stopping offsets, on a cluster in memory; against a real broker in ``tests/conformance``."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparkapp.clients.cluster_view import FoundRecord
from sparkapp.model.errors import LeaderUnavailable, UndefinedOffset
from sparkapp.model.job.startup import PartitionOffset, ResetStrategy, Startup, StartupMode, Stopping, StoppingMode
from sparkapp.model.partition import TopicPartition
from sparkapp.source.offsets_initializer import (
    CommittedOffsetsInitializer,
    NamedStopsInitializer,
    SpecificOffsetsInitializer,
    TimestampOffsetsInitializer,
    TimestampStopsInitializer,
    starting_initializer,
    stopping_initializer,
)
from tests.support.fakes.cluster_view import FakeCluster

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))


def cluster() -> FakeCluster:
    return FakeCluster({"a": 3}, {A0: 3}, {A0: 10, A1: 20}, {A0: 7, A1: 9}, {A0: [0, 10, 10, 20], A1: [5, 5], A2: []})


def test_a_timestamp_finds_the_first_record_of_that_time_or_later() -> None:
    found = TimestampOffsetsInitializer(10).offsets([A0, A1, A2], cluster())
    assert found == {A0: 4, A1: 20, A2: 0}, "Latest where no record is that late, S18: 0 for an empty partition"


@pytest.mark.parametrize(("strategy", "offset"), [(ResetStrategy.EARLIEST, 0), (ResetStrategy.LATEST, 20)])
def test_a_timestamp_after_the_end_follows_the_strategy(strategy: ResetStrategy, offset: int) -> None:
    assert TimestampOffsetsInitializer(10, strategy).offsets([A1], cluster()) == {A1: offset}


def test_a_timestamp_after_the_end_without_a_strategy_names_the_partition() -> None:
    with pytest.raises(UndefinedOffset, match="no record at or after timestamp 10 and no reset policy for partition a"):
        TimestampOffsetsInitializer(10, ResetStrategy.FAIL).offsets([A1], cluster())


class Growing(FakeCluster):
    """The next record of each partition becomes readable behind the answer: appended, or its transaction has ended."""

    def records_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundRecord]:
        found = super().records_at(times)
        self.ends |= {each: end + 1 for each, end in self.latest(times).items()}
        return found


def test_a_record_that_comes_while_its_time_is_looked_for_is_not_skipped() -> None:
    view = Growing({"a": 2}, {}, {A0: 2, A1: 1}, times={A0: [5, 6, 10, 11], A1: [5, 10]})
    assert TimestampOffsetsInitializer(10).offsets([A0, A1], view) == {A0: 2, A1: 1}
    assert view.ends == {A0: 3, A1: 2}


def behind_a_transaction() -> FakeCluster:
    """Records 0 to 9 can be read, 10 to 14 are in an open transaction, 15 to 19 are behind it with times from 1000."""
    times = [*range(10), *range(500, 505), *range(1000, 1005)]
    return FakeCluster({"a": 1}, {}, {A0: 10}, times={A0: times}, unstable={A0: 10})


@pytest.mark.parametrize("strategy", ResetStrategy)
def test_a_timestamp_behind_an_open_transaction_is_found(strategy: ResetStrategy) -> None:
    """Earliest would repeat the log, and Fail would stop the job, until the transaction has ended."""
    assert TimestampOffsetsInitializer(1000, strategy).offsets([A0], behind_a_transaction()) == {A0: 15}


def test_a_start_at_a_time_that_no_record_has_is_latest() -> None:
    assert TimestampOffsetsInitializer(2000).offsets([A0], behind_a_transaction()) == {A0: 10}


@pytest.mark.parametrize(("millis", "stop"), [(5, 5), (502, 12), (1000, 15), (2000, 20)])
def test_a_stop_at_a_time_has_all_earlier_records_before_it(millis: int, stop: int) -> None:
    """Also those of an open transaction: each of the log's records is earlier than a time that no record has."""
    stopping = stopping_initializer(Stopping(mode=StoppingMode.TIMESTAMP, timestamp_millis=millis))
    assert stopping is not None
    assert stopping.offsets([A0], behind_a_transaction()) == {A0: stop}


def test_a_stop_at_a_time_has_no_later_record_before_it() -> None:
    """The end of the log is asked before the time: a record that comes meanwhile may have reached the time."""
    view = Growing({"a": 2}, {}, {A0: 2, A1: 2}, times={A0: [5, 6, 10], A1: [5, 6, 7]})
    assert TimestampStopsInitializer(10).offsets([A0, A1], view) == {A0: 2, A1: 2}


def test_S20_specific_offsets_without_any_are_refused() -> None:
    with pytest.raises(UndefinedOffset, match="no specific offsets were specified"):
        SpecificOffsetsInitializer({}, ResetStrategy.FAIL)


def test_partitions_without_an_entry_begin_at_the_group_then_by_the_strategy() -> None:
    each = SpecificOffsetsInitializer({A0: 5}, ResetStrategy.LATEST)
    assert each.offsets([A0, A1, A2], cluster()) == {A0: 5, A1: 9, A2: 0}
    with pytest.raises(UndefinedOffset, match="Undefined offset with no reset policy for partition a-2"):
        SpecificOffsetsInitializer({A0: 5}, ResetStrategy.FAIL).offsets([A0, A2], cluster())


def test_the_ends_of_the_log_are_offsets_and_beyond_them_the_strategy_decides() -> None:
    heard: list[tuple[str, str]] = []
    each = SpecificOffsetsInitializer(
        {A0: 2, A1: 21}, ResetStrategy.EARLIEST, warn=lambda reason, text: heard.append((reason, text))
    )
    assert each.offsets([A0, A1], cluster()) == {A0: 3, A1: 0}
    assert heard[0][0] == "OffsetOutOfRange"
    assert "a-0 at 2 (the log holds 3 to 10), a-1 at 21 (the log holds 0 to 20)" in heard[0][1]
    assert SpecificOffsetsInitializer({A0: 3, A1: 20}, ResetStrategy.FAIL).offsets([A0, A1], cluster()) == {
        A0: 3, A1: 20,
    }  # fmt: skip
    with pytest.raises(UndefinedOffset, match="a-0 at 2"):
        SpecificOffsetsInitializer({A0: 2}, ResetStrategy.FAIL).offsets([A0], cluster())


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [(ResetStrategy.EARLIEST, {A0: 3, A1: 0, A2: 0}), (ResetStrategy.LATEST, {A0: 10, A1: 20, A2: 0})],
)
def test_a_committed_offset_outside_the_log_follows_the_strategy_and_says_so(
    strategy: ResetStrategy, expected: dict[TopicPartition, int]
) -> None:
    """Kafka's ``auto.offset.reset`` is for both: no offset, and one that is out of range."""
    heard: list[tuple[str, str]] = []
    view = cluster()
    view.commits = {A0: 2, A1: 21, A2: 0}
    startup = Startup(mode=StartupMode.GROUP_OFFSETS, on_missing=strategy)
    each = starting_initializer(startup, warn=lambda reason, text: heard.append((reason, text)))
    assert each.offsets([A0, A1, A2], view) == expected
    assert [reason for reason, _ in heard] == ["OffsetOutOfRange"]
    assert heard[0][1] == (
        "the group's committed offset: a-0 at 2 (the log holds 3 to 10), a-1 at 21 (the log holds 0 to 20);"
        f" {strategy} instead"
    )


def test_a_replaced_leader_does_not_put_an_offset_outside_the_log() -> None:
    """A committed offset that is reset has its records read and written again."""
    heard: list[tuple[str, str]] = []
    view = FakeCluster({"a": 2}, {}, {A0: 10, A1: 20}, {A0: 7, A1: 18}, replaced={A1: 15})
    initializer = CommittedOffsetsInitializer(
        ResetStrategy.EARLIEST, warn=lambda reason, text: heard.append((reason, text))
    )
    assert initializer.offsets([A0, A1], view) == {A0: 7, A1: 18}
    assert (heard, view.asked_each) == ([], [[A1]])
    view.undecided = True
    with pytest.raises(LeaderUnavailable):
        initializer.offsets([A0, A1], view)


def test_S16_a_committed_offset_outside_the_log_is_kept_without_a_strategy() -> None:
    view = cluster()
    view.commits = {A0: 2, A1: 21}
    assert CommittedOffsetsInitializer(ResetStrategy.FAIL).offsets([A0, A1], view) == {A0: 2, A1: 21}


def test_an_offset_behind_an_open_transaction_is_in_the_log() -> None:
    """The client that committed it did not wait for the transaction's end; Earliest would repeat the whole log."""
    view = cluster()
    view.commits, view.unstable = {A1: 25}, {A1: 5}
    assert CommittedOffsetsInitializer(ResetStrategy.EARLIEST).offsets([A1], view) == {A1: 25}
    assert SpecificOffsetsInitializer({A1: 24}, ResetStrategy.EARLIEST).offsets([A1], view) == {A1: 24}


def test_partitions_without_an_entry_report_the_groups_offset_outside_the_log() -> None:
    heard: list[tuple[str, str]] = []
    view = cluster()
    view.commits = {A0: 2}
    each = SpecificOffsetsInitializer(
        {A1: 3}, ResetStrategy.LATEST, warn=lambda reason, text: heard.append((reason, text))
    )
    assert each.offsets([A0, A1], view) == {A0: 10, A1: 3}
    assert [reason for reason, _ in heard] == ["OffsetOutOfRange"]


def test_specific_offsets_of_partitions_that_are_not_read_are_reported() -> None:
    heard: list[tuple[str, str]] = []
    each = SpecificOffsetsInitializer(
        {A0: 5, TopicPartition("other", 0): 3, TopicPartition("a", 9): 1}, ResetStrategy.EARLIEST,
        warn=lambda reason, text: heard.append((reason, text)),
    )  # fmt: skip
    assert each.offsets([A0], cluster()) == {A0: 5}
    assert [reason for reason, _ in heard] == ["SpecificOffsetsUnused"]
    assert "partition a-9, other-0: not read by this job" in heard[0][1]


def test_every_startup_mode_has_its_initializer() -> None:
    view = cluster()
    expected = {
        StartupMode.EARLIEST: {A0: 3}, StartupMode.LATEST: {A0: 10}, StartupMode.GROUP_OFFSETS: {A0: 7},
        StartupMode.TIMESTAMP: {A0: 6}, StartupMode.SPECIFIC_OFFSETS: {A0: 8},
    }  # fmt: skip
    for mode in StartupMode:
        startup = Startup(mode=mode, timestamp_millis=20, specific_offsets=(PartitionOffset("a", 0, 8),))
        assert starting_initializer(startup).offsets([A0], view) == expected[mode]


def test_every_stopping_mode_has_its_initializer() -> None:
    view = cluster()
    expected = {
        StoppingMode.LATEST: {A0: 10}, StoppingMode.GROUP_OFFSETS: {A0: 7}, StoppingMode.TIMESTAMP: {A0: 6},
        StoppingMode.SPECIFIC_OFFSETS: {A0: 8},
    }  # fmt: skip
    for mode in StoppingMode:
        stopping = Stopping(mode=mode, timestamp_millis=20, specific_offsets=(PartitionOffset("a", 0, 8),))
        initializer = stopping_initializer(stopping)
        assert (initializer.offsets([A0], view) if initializer else None) == expected.get(mode)


def test_a_stop_is_never_guessed() -> None:
    with pytest.raises(UndefinedOffset, match="no entry for partition a-1") as caught:
        NamedStopsInitializer({A0: 5}).offsets([A0, A1], cluster())
    assert "each partition stops before" in caught.value.remedy
    group = stopping_initializer(Stopping(mode=StoppingMode.GROUP_OFFSETS))
    assert group is not None
    with pytest.raises(UndefinedOffset, match="partition a-2"):
        group.offsets([A0, A2], cluster())
