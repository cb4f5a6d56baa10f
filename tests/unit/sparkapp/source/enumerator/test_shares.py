"""A checkpoint's cap, shared in proportion to lag."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.shares import FairShares, shares

A0, A1, A2, A3 = (TopicPartition("a", number) for number in range(4))


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
