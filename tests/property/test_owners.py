"""Owners: every partition has exactly one, in whatever order subtasks ask."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.partition import TopicPartition, split_owner

topics = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
partitions = st.builds(TopicPartition, topics, st.integers(0, 5000))
parallelisms = st.integers(1, 200)
splits = st.builds(
    lambda partition, start, size: KafkaPartitionSplit(partition, start, start + size),
    partitions, st.integers(0, 1 << 40), st.integers(0, 3),
)  # fmt: skip


@given(partitions, parallelisms)
def test_S01_an_owner_is_a_subtask(partition, parallelism):
    assert 0 <= split_owner(*partition, parallelism) < parallelism


@given(topics, st.integers(0, 5000), parallelisms)
def test_S32_owners_go_round(topic, partition, parallelism):
    here, following = (split_owner(topic, each, parallelism) for each in (partition, partition + 1))
    assert following == (here + 1) % parallelism


@given(st.data(), st.lists(splits, unique_by=lambda split: split.partition, max_size=40), parallelisms)
def test_S34_every_split_has_one_owner_whatever_the_order(data, given_splits, parallelism):
    groups = splits_by_subtask(given_splits, parallelism)
    owned = [split for group in groups.values() for split in group]
    assert sorted(owned) == sorted(split for split in given_splits if split.size)
    assert all(split.owner(parallelism) == subtask for subtask, group in groups.items() for split in group)
    assert splits_by_subtask(data.draw(st.permutations(given_splits)), parallelism) == groups
    assert list(groups) == sorted(groups)
