"""Partitions are kept together in record time, and something is always left to read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.watermark_alignment import WatermarkAlignment
from tests.support.fakes.cluster_view import FakeCluster

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
NOW = 1_700_000_000.0
MILLIS = int(NOW * 1000)


def cluster(**times: list[int]) -> FakeCluster:
    by_partition = {TopicPartition("a", int(name[1:])): found for name, found in times.items()}
    return FakeCluster(
        {"a": 3}, {}, {partition: len(found) for partition, found in by_partition.items()}, {}, by_partition
    )


def test_a_fast_partition_waits_for_a_slow_one() -> None:
    view = cluster(p0=[100, 200, 300, 400], p1=[100, 110, 120, 130])
    alignment = WatermarkAlignment(view, 50)
    assert alignment.cut({A0: 0, A1: 0}, view.ends) == {A0: 1, A1: 4}
    # Partition 1 is idle now, and holds nobody back.
    assert alignment.cut({A0: 1, A1: 4}, view.ends) == {A0: 2, A1: 4}
    view.times[A1] += [290, 500]
    view.ends[A1] = 6
    assert alignment.cut({A0: 2, A1: 4}, view.ends) == {A0: 3, A1: 5}


def test_a_gap_in_time_is_jumped() -> None:
    view = cluster(p0=[100, 10_000_000], p1=[10_000_040])
    alignment = WatermarkAlignment(view, 50)
    assert alignment.cut({A0: 0, A1: 0}, view.ends) == {A0: 1, A1: 0}
    assert alignment.cut({A0: 1, A1: 0}, view.ends) == {A0: 2, A1: 1}


def test_a_restart_in_the_middle_finds_the_time_of_the_next_record() -> None:
    view = cluster(p0=list(range(0, 10_000, 10)), p1=list(range(5000, 6000)))
    alignment = WatermarkAlignment(view, 20)
    assert alignment.cut({A0: 510, A1: 0}, view.ends) == {A0: 510, A1: 21}, "5000 is the earliest, 5100 is too far"
    assert alignment.cut({A0: 510, A1: 21}, view.ends) == {A0: 510, A1: 42}


def test_records_without_a_time_and_without_order_do_not_stop_the_job() -> None:
    view = cluster(p0=[], p1=[900, 100, 200, 950])
    view.ends[A0] = 7
    alignment = WatermarkAlignment(view, 10)
    assert alignment.cut({A0: 0, A1: 0}, view.ends)[A0] == 7
    offsets = {A0: 7, A1: 0}
    for _ in range(10):
        offsets = alignment.cut(offsets, view.ends)
    assert offsets == view.ends


def test_a_record_of_the_future_that_is_read_holds_its_partition_back_no_more() -> None:
    view = cluster(p0=[100, MILLIS + 1_000_000, 300, 400], p1=[300, 360, 900])
    alignment = WatermarkAlignment(view, 50, now=lambda: NOW)
    assert alignment.cut({A0: 2, A1: 0}, view.ends) == {A0: 4, A1: 1}
    view.times[A0].append(950)
    view.ends[A0] = 5
    assert alignment.cut({A0: 4, A1: 1}, view.ends) == {A0: 5, A1: 2}, "and the other partition waits for nothing"


def test_a_partition_of_the_future_does_not_stop_the_others_nor_end_their_alignment() -> None:
    future = MILLIS + 1_000_000
    view = cluster(p0=[100, future], p1=[], p2=[])
    alignment = WatermarkAlignment(view, 50, now=lambda: NOW)
    alignment.cut({A0: 0, A1: 0, A2: 0}, view.ends)
    assert alignment.cut({A0: 1, A1: 0, A2: 0}, view.ends) == {A0: 2, A1: 0, A2: 0}
    view.times |= {A0: [100, future, 200], A1: [MILLIS - 1000, MILLIS - 900], A2: [MILLIS - 980, MILLIS - 890]}
    view.ends |= {A0: 3, A1: 2, A2: 2}
    assert alignment.cut({A0: 2, A1: 0, A2: 0}, view.ends) == {A0: 3, A1: 1, A2: 1}
    assert alignment.cut({A0: 3, A1: 1, A2: 1}, view.ends) == {A0: 3, A1: 2, A2: 2}


def test_times_at_the_end_of_all_times_stop_nothing() -> None:
    latest = (1 << 63) - 1
    for log in ([latest], [latest, 100]):
        view = cluster(p0=log, p1=[latest - 1])
        alignment = WatermarkAlignment(view, 50, now=lambda: NOW)
        offsets = {A0: 0, A1: 0}
        for _ in range(3):
            offsets = alignment.cut(offsets, view.ends)
        assert offsets == view.ends


def test_a_topic_without_times_is_read() -> None:
    view = cluster(p0=[], p1=[])
    view.ends[A0] = 7
    assert WatermarkAlignment(view, 10).cut({A0: 0, A1: 0}, view.ends) == {A0: 7, A1: 0}


@given(
    st.lists(st.lists(st.integers(0, 3000), max_size=30), min_size=1, max_size=3),
    st.integers(0, 500),
    st.booleans(),
    st.sampled_from([0, 1.5, NOW]),
    st.integers(0, 5),
)
def test_the_drift_is_kept_and_everything_is_read(
    times: list[list[int]], drift: int, ordered: bool, now: float, unstable: int
) -> None:
    """Records behind an open transaction are in the log, too, and change nothing."""
    whole = {TopicPartition("a", number): sorted(log) if ordered else log for number, log in enumerate(times)}
    logs = {partition: log[: max(0, len(log) - unstable)] for partition, log in whole.items()}
    ends = {partition: len(log) for partition, log in logs.items()}
    view = FakeCluster({"a": 3}, {}, ends, {}, whole, {each: len(log) - ends[each] for each, log in whole.items()})
    alignment = WatermarkAlignment(view, drift, now=lambda: now)
    offsets = dict.fromkeys(logs, 0)
    for _ in range(200):
        if offsets == view.ends:
            break
        unread = [log[offsets[each]] for each, log in logs.items() if offsets[each] < len(log)]
        ends = alignment.cut(offsets, view.ends)
        assert any(ends[each] > offsets[each] for each in logs), "there is always something to read"
        assert all(offsets[each] <= ends[each] <= view.ends[each] for each in logs)
        if ordered and now == NOW:
            read = [time for each, log in logs.items() for time in log[offsets[each] : ends[each]]]
            assert max(read) <= min(unread) + drift
        offsets = ends
    assert offsets == view.ends
