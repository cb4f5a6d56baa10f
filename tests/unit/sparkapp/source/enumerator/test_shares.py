"""A checkpoint's cap, shared in proportion to lag, and the rate of a partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.shares import FairShares, RateLimit, shares
from tests.support.clock import FakeClock

A0, A1, A2, A3 = (TopicPartition("a", number) for number in range(4))
BACKLOG = 10**9


class Limited:
    """A limit whose plans take what they may, on a clock of the test's."""

    def __init__(self, rate: int, *, interval: float) -> None:
        self.clock = FakeClock()
        self.limit = RateLimit(rate, interval=interval, clock=self.clock)

    def plan(self, backlog: dict[TopicPartition, int], *, after: float = 0.0) -> dict[TopicPartition, int]:
        self.clock.now += after
        taken = self.limit.limited(backlog)
        self.limit.take(taken)
        return taken


def test_S39_the_cap_is_shared_in_proportion_to_lag() -> None:
    assert shares({A0: 300, A1: 100}, 100) == {A0: 75, A1: 25}
    assert shares({A0: 30, A1: 10}, 100) == {A0: 30, A1: 10}


def test_S39_a_small_backlog_next_to_a_partition_that_is_refilled_is_not_starved() -> None:
    """In proportion alone the small backlog's share is rounded down to nothing, round after round."""
    assert shares({A0: 1000, A1: 1}, 10) == {A0: 9, A1: 1}
    assert shares({A0: 10**9, A1: 1, A2: 3, A3: 0}, 4) == {A0: 2, A1: 1, A2: 1, A3: 0}


def test_S39_what_is_not_needed_for_one_each_is_shared_in_proportion() -> None:
    assert shares({A0: 900, A1: 90, A2: 1}, 100) == {A0: 90, A1: 9, A2: 1}


def test_S39_a_cap_below_the_number_of_partitions_goes_round() -> None:
    backlog = {A0: 5, A1: 5, A2: 5, A3: 0}
    first = shares(backlog, 2)
    assert first == {A0: 1, A1: 1, A2: 0, A3: 0}
    assert shares(backlog, 2, after=A1) == {A0: 1, A1: 0, A2: 1, A3: 0}
    assert shares(backlog, 2, after=A3) == first


@given(
    st.lists(st.integers(1, 10**7), min_size=1, max_size=12),
    st.integers(1, 30),
    st.lists(st.integers(0, 50), max_size=12),
)
def test_S39_no_backlog_starves_whatever_the_others_get_meanwhile(
    sizes: list[int], limit: int, refills: list[int]
) -> None:
    """Each round refills every partition, small partitions too; each partition is read within a round robin."""
    backlog = {TopicPartition("t", number): size for number, size in enumerate(sizes)}
    turns = FairShares(limit)
    read: set[TopicPartition] = set()
    for number in range(-(-len(backlog) // limit)):
        result = turns.of(backlog)
        assert sum(result.values()) == min(limit, sum(backlog.values()))
        assert all(0 <= result[partition] <= size for partition, size in backlog.items())
        read |= {partition for partition, share in result.items() if share}
        backlog = {partition: size - result[partition] + 1 for partition, size in backlog.items()}
        for index, more in enumerate(refills):
            if index < len(sizes) and number % 2:
                backlog[TopicPartition("t", index)] += more
    assert read == set(backlog)


@given(
    st.dictionaries(st.integers(0, 40).map(lambda n: TopicPartition("t", n)), st.integers(0, 10**7), min_size=1),
    st.integers(1, 10**6),
)
def test_S39_shares_never_exceed_the_cap_or_a_backlog(backlog: dict[TopicPartition, int], limit: int) -> None:
    result = shares(backlog, limit)
    assert sum(result.values()) == min(limit, sum(backlog.values()))
    assert all(0 <= result[partition] <= size for partition, size in backlog.items())
    waiting = [partition for partition, size in backlog.items() if size]
    assert limit < len(waiting) or all(result[partition] for partition in waiting)


@pytest.mark.parametrize(
    ("rate", "interval"),
    [(1, 0.02), (1, 0.1), (5, 0.1), (15, 0.1), (19, 0.1), (1, 10.0), (3, 2.5), (1000, 0.02), (10**9, 1.0)],
)
@pytest.mark.parametrize("delay", [1.0, 1.01, 1.5], ids=["in time", "hardly late", "late"])
def test_the_average_of_a_partition_is_its_rate_at_each_interval(rate: int, interval: float, delay: float) -> None:
    """Each plan comes an interval behind the last plan, or later: a checkpoint takes its time."""
    limited, plans = Limited(rate, interval=interval), round(100 / interval)
    read = limited.plan({A0: BACKLOG * 1000})[A0]
    read += sum(limited.plan({A0: BACKLOG * 1000}, after=interval * delay)[A0] for _ in range(plans))
    assert read == pytest.approx(rate * interval * (1 + delay * plans), abs=1.01)


@given(
    st.integers(1, 10**4),
    st.sampled_from([0.02, 0.1, 1.0, 10.0]),
    st.lists(st.tuples(st.floats(0, 20), st.sampled_from([0, 1, 50, BACKLOG]), st.booleans()), max_size=30),
)
def test_no_time_gets_more_than_its_rate_and_what_was_kept_before(
    rate: int, interval: float, plans: list[tuple[float, int, bool]]
) -> None:
    """Whatever the backlog was, and whether the job had the partition: a group may take it away and give it back."""
    limited, kept = Limited(rate, interval=interval), rate * max(1.0, interval)
    taken: list[tuple[float, int]] = []
    for after, size, is_ours in plans:
        read = limited.plan({A0: size} if is_ours else {}, after=after)
        taken.append((after, read.get(A0, 0)))
        assert 0 <= taken[-1][1] <= size
    for first in range(len(taken)):
        since, read = 0.0, 0
        for after, records in taken[first:]:
            since, read = since + after, read + records
            assert read <= rate * since + kept + 0.01


def test_a_rate_below_a_record_a_plan_reads_in_some_plans() -> None:
    limited = Limited(3, interval=0.1)
    assert [limited.plan({A0: 9}, after=0.125)[A0] for _ in range(9)] == [0, 0, 1, 0, 0, 1, 0, 0, 1]


def test_what_an_idle_time_leaves_is_kept_for_a_second_or_an_interval() -> None:
    for interval, kept in ((0.1, 8), (5.0, 40)):
        limited = Limited(8, interval=interval)
        for _ in range(1000):
            assert limited.plan({A0: 0}, after=0.25) == {A0: 0}
        assert limited.plan({A0: BACKLOG}) == {A0: kept}
        assert limited.plan({A0: BACKLOG}) == {A0: 0}


def test_a_partition_that_is_found_late_begins_with_an_intervals_share() -> None:
    limited = Limited(7, interval=2.0)
    assert limited.plan({A0: BACKLOG}) == {A0: 14}
    assert limited.plan({A0: BACKLOG, A1: BACKLOG}, after=3.0) == {A0: 21, A1: 14}


def test_a_cap_below_the_rate_leaves_credit_to_the_next_plan() -> None:
    limited = Limited(10, interval=1.0)
    assert limited.limit.limited({A0: BACKLOG}) == {A0: 10}
    limited.limit.take({A0: 4})
    assert limited.plan({A0: BACKLOG}) == {A0: 6}


def test_without_a_rate_nothing_is_limited() -> None:
    limited = Limited(0, interval=1.0)
    assert [limited.plan({A0: BACKLOG, A1: 0}) for _ in range(2)] == [{A0: BACKLOG, A1: 0}] * 2
