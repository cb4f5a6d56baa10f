"""Earlier checkpoints under arbitrary content, damage and order: what stays is the newest, and fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.checkpoint.retained import Held, RetainedCheckpoint, retained_key, surplus
from sparkapp.model.checkpoint.retained_codec import decode_retained, encode_retained
from sparkapp.model.errors import CheckpointUnusable
from sparkapp.model.partition import TopicPartition

words = st.text(st.characters(codec="utf-8"), max_size=12)
offsets = st.dictionaries(
    st.builds(TopicPartition, words, st.integers(0, 9999)), st.integers(0, (1 << 63) - 1), max_size=8
)
checkpoints = st.builds(
    RetainedCheckpoint,
    job_uid=words,
    attempt=st.integers(1, 1 << 40),
    checkpoint_id=st.integers(1, 1 << 50),
    created_at=st.just("2026-11-21T08:00:00Z"),
    orderly=st.booleans(),
    offsets=offsets,
    records_in=st.integers(0, (1 << 63) - 1),
)
held = st.lists(
    st.builds(
        Held,
        st.integers(1, 400).map(retained_key) | words,
        st.integers(0, 50),
        st.booleans(),
    ),
    unique_by=lambda each: each.key,
    max_size=60,
)


@given(checkpoints)
def test_round_trip(checkpoint: RetainedCheckpoint) -> None:
    key = retained_key(checkpoint.checkpoint_id)
    assert decode_retained(encode_retained(checkpoint), key=key, job_uid=checkpoint.job_uid) == checkpoint


@given(checkpoints, st.data())
def test_damage_is_an_error_of_ours_or_leaves_it_right(checkpoint: RetainedCheckpoint, data: st.DataObject) -> None:
    text = encode_retained(checkpoint)
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(words) + text[at + data.draw(st.integers(0, 5)) :]
    key = retained_key(checkpoint.checkpoint_id)
    try:
        found = decode_retained(damaged, key=key, job_uid=checkpoint.job_uid)
    except CheckpointUnusable:
        return
    assert (found.job_uid, found.checkpoint_id) == (checkpoint.job_uid, checkpoint.checkpoint_id)


@given(held, st.integers(0, 50), st.integers(0, 800))
def test_what_stays_fits_and_is_the_newest_that_can_be_used(found: list[Held], count: int, budget: int) -> None:
    dropped = surplus(found, count=count, budget=budget)
    assert len(set(dropped)) == len(dropped)
    left = [each for each in found if each.key not in dropped]
    assert len(left) <= count
    assert sum(each.size for each in left) <= budget
    gone = [each for each in found if each.key in dropped]
    if any(each.usable for each in gone):
        assert all(each.usable for each in left), "what is of no use goes first"
    if gone:
        # No more than was needed: the last one that went would not have fitted.
        last = next(each for each in found if each.key == dropped[-1])
        assert len(left) + 1 > count or sum(each.size for each in left) + last.size > budget
    if sum(each.size for each in found) <= budget and len(found) <= count:
        assert not dropped


@given(st.lists(st.integers(1, 60), unique=True, min_size=1), st.integers(1, 20))
def test_the_oldest_goes_first(numbers: list[int], count: int) -> None:
    dropped = surplus([Held(retained_key(each), 1, True) for each in numbers], count=count, budget=1000)
    left = sorted(each for each in numbers if retained_key(each) not in dropped)
    assert left == sorted(numbers)[-count:]
