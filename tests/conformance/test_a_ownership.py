"""Group A, ownership of transactional ids and their naming.

Flink hands each subtask a share of the previous subtasks' ids, read from its own piece of the state. Here the driver
settles and aborts for the whole job before any subtask writes, so the promises behind these cases become: the ids of a
attempt are divided among its subtasks without overlap or gap, every id of a previous attempt has one owner who ends
it, and a state that contradicts itself is refused.
"""

from __future__ import annotations

import json

import pytest

from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CheckpointCorrupt
from sparkapp.model.transactional_id import (
    FIRST_HINT,
    TransactionalIdHint,
    number_of,
)
from tests.support.jobs.sink_harness import State, merged


@pytest.mark.parametrize("state", [None, State(hint=FIRST_HINT)], ids=["A10", "A11"])
def test_A10_A11_without_state_a_subtask_owns_its_pool_of_the_whole(harness, topic_scope, state):
    """Subtask 2 of 4 owns share 2 of 4, whether the state is absent or empty: its writers go round in it."""
    shares = []
    for subtask in range(4):
        item, used = harness(subtask, 4).open(state), []
        for checkpoint in range(5):
            item.write(subtask)
            used += [number_of(each.transactional_id, topic_scope.prefix) for each in item.snapshot(checkpoint).pending]
            item.notify(checkpoint)
        shares.append(used)
    assert sorted(shares[2]) == list(range(10, 15))
    assert sorted(number for share in shares for number in share) == list(range(20))
    topic_scope.await_ended()
    assert sorted(topic_scope.numbers()) == sorted(list(range(4)) * 5)
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("survivors", [(1,), (1, 3)], ids=["A12", "A13"])
def test_A12_A13_scale_in_from_4_to_3_leaves_every_previous_id_to_a_subtask(harness, topic_scope, survivors):
    """Subtask 2 of 3 gets one or two previous shares in Flink. Here whatever the document names is committed, whatever
    else the four had open is aborted, and the three write under ids that no previous subtask had."""
    previous = [harness(subtask, 4).open() for subtask in range(4)]
    states = []
    for subtask, writer in enumerate(previous):
        if subtask in (0, *survivors):
            writer.write(subtask)
        states.append(writer.snapshot(1))
        writer.write(100 + subtask)
    state = merged(states)
    assert state.hint == TransactionalIdHint(4, 20)
    narrow = [harness(subtask, 3).restore(state) for subtask in range(3)]
    assert {each.committable.subtask for each in narrow[0].settled} == {0, *survivors}
    assert {each.outcome for each in narrow[0].settled} == {CommitOutcome.COMMITTED}
    assert sorted(narrow[0].aborted) == sorted(f"{topic_scope.prefix}-{subtask * 5 + 2}" for subtask in range(4))
    narrow[2].write(7)
    written = narrow[2].snapshot(2)
    assert number_of(written.pending[0].transactional_id, topic_scope.prefix) == 20 + 2 * 5 + 2
    narrow[2].notify(2)
    topic_scope.await_ended()
    assert sorted(topic_scope.numbers()) == [0, *survivors, 7]
    assert topic_scope.open_transactions() == []


def test_A14_a_state_that_does_not_fit_its_parallelism_is_refused():
    """Flink: "State not consecutively assigned". A document has one parallelism, and every committable's subtask must
    be below it."""
    committable = KafkaCommittable(
        transactional_id="p-1", producer_id=1, producer_epoch=0, checkpoint_id=1, subtask=1,
        records=1,
    )  # fmt: skip
    text = encode(
        CheckpointDocument(
            job_uid="uid", attempt=1, checkpoint_id=1, created_at="2026-11-21T12:00:00Z", parallelism=2, prefix="p",
            hint=TransactionalIdHint(2, 10), aligned=False, committables=(committable,),
        )
    )  # fmt: skip
    assert decode(text, job_uid="uid").committables == (committable,)
    body = json.loads(text)
    body["parallelism"] = 1
    with pytest.raises(CheckpointCorrupt, match="subtask 1 is not below the parallelism 1"):
        decode(json.dumps(body), job_uid="uid")


def test_A15_a_state_of_two_parallelisms_cannot_be_written_down():
    """Flink: "Not uniformly assigned", of subtasks that remember different parallelisms. Here nobody but the document
    remembers one: a committable that brings its own is refused, and so is a second one of the document."""
    text = encode(
        CheckpointDocument(
            job_uid="uid", attempt=1, checkpoint_id=1, created_at="2026-11-21T12:00:00Z", parallelism=4, prefix="p",
            hint=TransactionalIdHint(4, 20), aligned=False, committables=tuple(
                KafkaCommittable(
                    transactional_id=f"p-{subtask}", producer_id=1, producer_epoch=0,
                    checkpoint_id=1, subtask=subtask, records=1,
                )
                for subtask in (1, 3)
            ),
        )
    )  # fmt: skip
    body = json.loads(text)
    body["committables"][1]["parallelism"] = 3
    with pytest.raises(CheckpointCorrupt, match="parallelism"):
        decode(json.dumps(body), job_uid="uid")
    twice = text.replace('"parallelism":4', '"parallelism":4,"parallelism":3', 1)
    assert twice != text
    with pytest.raises(CheckpointCorrupt, match="an object names a field twice"):
        decode(twice, job_uid="uid")


def test_A17_a_state_without_its_parallelism_is_refused():
    """Flink: a state of before the ownership was known (UNKNOWN subtask and parallelism) under POOLING asks to migrate
    first. Here a document without a parallelism, or with one that cannot be, is not claimed and nothing is aborted."""
    text = encode(
        CheckpointDocument(
            job_uid="uid", attempt=1, checkpoint_id=1, created_at="2026-11-21T12:00:00Z", parallelism=2, prefix="p",
            hint=TransactionalIdHint(2, 10),
        )
    )  # fmt: skip
    for unknown in (None, 0, -1, "2"):
        body = json.loads(text)
        body["parallelism"] = unknown
        if unknown is None:
            del body["parallelism"]
        with pytest.raises(CheckpointCorrupt, match="parallelism"):
            decode(json.dumps(body), job_uid="uid")


@pytest.mark.parametrize(
    "renamed",
    [{"prefix": ".new"}, {"pool_size": 2}, {"prefix": ".new", "pool_size": 3}],
    ids=["prefix", "pool", "both"],
)
def test_A16_I06_a_change_of_the_naming_is_settled_under_the_old_names(harness, topic_scope, renamed):
    """Flink refuses to go from POOLING back to INCREMENTING, whose ids it could not distinguish. There is one naming
    here, of numbers that only move on, so a new prefix or pool size cannot be taken for an earlier attempt's. (A change
    of the prefix is refused in the resource nevertheless, as W01 and A19 show what it would cost.)"""
    previous = [harness(subtask, 2).open() for subtask in range(2)]
    states = []
    for subtask, writer in enumerate(previous):
        writer.write(subtask)
        states.append(writer.snapshot(1))
        writer.write(100 + subtask)
    state = merged(states)
    options = {**renamed, "prefix": topic_scope.prefix + renamed.get("prefix", "")}
    attempt = harness(0, 3, **options).restore(state)
    assert [each.outcome for each in attempt.settled] == [CommitOutcome.COMMITTED] * 2
    assert set(attempt.aborted) == {f"{topic_scope.prefix}-2", f"{topic_scope.prefix}-7"}
    attempt.write(2)
    later = attempt.snapshot(2)
    attempt.write(200)
    back = harness(0, 1).restore(later)
    assert [each.outcome for each in back.settled] == [CommitOutcome.COMMITTED]
    back.write(3)
    used = [number_of(each.transactional_id, topic_scope.prefix) for each in back.snapshot(3).pending]
    assert used >= [10], "never an id of the first life"
    back.notify(3)
    topic_scope.await_ended()
    assert sorted(topic_scope.numbers()) == [0, 1, 2, 3]
    assert topic_scope.open_transactions() == []
