"""Splits and pieces of them: whatever is cut, every record has one reader, and the work is spread."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.checkpoint.split import KafkaPartitionSplit, assign, splits_by_subtask
from sparkapp.model.partition import TopicPartition

splits = st.lists(
    st.builds(
        lambda partition, start, size: KafkaPartitionSplit(partition, start, start + size),
        st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 20)),
        st.integers(0, 1 << 40),
        st.integers(0, 5000),
    ),
    unique_by=lambda split: split.partition,
    max_size=12,
)
parallelisms = st.integers(1, 20)
limits = st.integers(1, 2000)


@given(splits, parallelisms, limits)
def test_S34_the_pieces_of_a_split_follow_each_other_and_cover_it(given_splits, parallelism, limit):
    groups, is_cut = assign(given_splits, parallelism, limit)
    assert all(0 <= subtask < parallelism for subtask in groups)
    assert list(groups) == sorted(groups)
    pieces: dict[TopicPartition, list[KafkaPartitionSplit]] = {}
    for subtask, group in groups.items():
        assert group, f"subtask {subtask} has nothing to do"
        assert len({piece.partition for piece in group}) == len(group), "a reader takes one range of a partition"
        for piece in group:
            pieces.setdefault(piece.partition, []).append(piece)
    assert pieces.keys() == {split.partition for split in given_splits if split.size}
    for split in given_splits:
        if split.size:
            found = sorted(pieces[split.partition])
            assert (found[0].start, found[-1].stop) == (split.start, split.stop)
            assert all(each.stop == other.start for each, other in itertools.pairwise(found))
            assert max(each.size for each in found) - min(each.size for each in found) <= 1
            assert len(found) == min(parallelism, -(-split.size // limit))
    assert is_cut == any(len(found) > 1 for found in pieces.values())


@given(splits, parallelisms, limits)
def test_what_is_cut_goes_where_there_is_least_to_do(given_splits, parallelism, limit):
    def loads(groups):
        return [sum(piece.size for piece in groups.get(subtask, ())) for subtask in range(parallelism)]

    groups, is_cut = assign(given_splits, parallelism, limit)
    if not is_cut:
        return
    whole = loads(splits_by_subtask((each for each in given_splits if each.size <= limit), parallelism))
    big = [each.size for each in given_splits if each.size > limit]
    largest = max(-(-size // min(parallelism, -(-size // limit))) for size in big)
    found = loads(groups)
    # The pieces of one split may differ by one record.
    assert max(found) - min(found) <= max(largest, max(whole) - min(whole)) + len(big)


@given(st.data(), splits, parallelisms, limits)
def test_everybody_comes_to_the_same_pieces(data, given_splits, parallelism, limit):
    shuffled = data.draw(st.permutations(given_splits))
    assert assign(shuffled, parallelism, limit) == assign(given_splits, parallelism, limit)


@given(splits, parallelisms)
def test_S34_without_a_limit_or_a_big_split_the_owners_read(given_splits, parallelism):
    owners = (splits_by_subtask(given_splits, parallelism), False)
    assert assign(given_splits, parallelism, 0) == owners
    assert assign(given_splits, parallelism, 5000) == owners
    assert assign(given_splits, 1, 1) == (splits_by_subtask(given_splits, 1), False)
