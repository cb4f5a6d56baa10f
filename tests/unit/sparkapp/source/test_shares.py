"""A checkpoint's cap, shared in proportion to lag."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.partition import TopicPartition
from sparkapp.source.shares import shares

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


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
