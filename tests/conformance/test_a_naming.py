"""Groups A and I where the naming is by subtask and slot, as Flink's POOLING.

A subtask has the same ids in every attempt. A new attempt begins with the ids of the previous attempt. These
tests show which producer fences which.
"""

from __future__ import annotations

import itertools

import pytest

from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
from sparkapp.model.checkpoint.naming import SlotBounds, TransactionNaming, subtask_slot_of
from sparkapp.model.errors import AuthorizationFailed, ListingUnsupported, TransactionFenced
from sparkapp.model.transactional_id import FIRST_HINT
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.used_ids import UsedIds
from tests.support.jobs.sink_harness import State, merged
from tests.support.kafka.walking import Walking

HINT, SLOT = TransactionNaming.HINT, TransactionNaming.SUBTASK_AND_SLOT


@pytest.fixture
def writers(harness):
    """``writers(P)``: the subtasks of an attempt that starts from a state; subtask 0 is the driver, too."""

    def make(parallelism, state=None, **fields):
        fields = {"naming": SLOT, **fields}
        return [harness(subtask, parallelism, **fields).open(state) for subtask in range(parallelism)]

    return make


def leave(attempt, number, *, label=1):
    """Every subtask completes a pre-commit and dies in the next transaction; subtask i writes number + i."""
    states = []
    for subtask, writer in enumerate(attempt):
        writer.write(number + subtask)
        states.append(writer.snapshot(label))
        writer.write(1000 + number + subtask)
    return merged(states)


def test_A01_A04_A12_rescaled_there_and_back_every_subtask_keeps_its_ids(writers, topic_scope):
    """3, 2, 4, 1 subtasks: each start commits what the document names and aborts the rest, of any subtask."""
    state, expected = None, []
    for step, parallelism in enumerate((3, 2, 4)):
        attempt = writers(parallelism, state)
        if state is not None:
            previous = len(state.pending)
            assert {each.outcome for each in attempt[0].settled} == {CommitOutcome.COMMITTED}
            slot = (state.checkpoint_id + 1) % 5
            assert sorted(attempt[0].aborted) == [
                f"{topic_scope.prefix}-{subtask}.{slot}" for subtask in range(previous)
            ]
        assert topic_scope.open_transactions() == []
        state = leave(attempt, 10 * step)
        assert [each.transactional_id for each in state.pending] == [
            f"{topic_scope.prefix}-{subtask}.{state.checkpoint_id % 5}" for subtask in range(parallelism)
        ]
        expected += [10 * step + subtask for subtask in range(parallelism)]
    assert state.slots == SlotBounds(4, 5)
    writers(1, state)
    topic_scope.await_ended()
    assert sorted(topic_scope.numbers()) == expected
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(TransactionNaming)))
def test_A16_I06_a_change_of_the_naming_is_settled_under_the_old_names(writers, topic_scope, before, after):
    """Flink: INCREMENTING to POOLING at the same parallelism, then a smaller one, no way back. Here there is one."""
    state, expected = None, []
    for step, (naming, parallelism, pool) in enumerate([(before, 2, 5), (after, 2, 5), (after, 1, 2), (before, 2, 3)]):
        attempt = writers(parallelism, state, naming=naming, pool_size=pool)
        if state is not None:
            assert {each.outcome for each in attempt[0].settled} == {CommitOutcome.COMMITTED}
            assert len(attempt[0].aborted) == len(state.pending)
        assert topic_scope.open_transactions() == []
        state = leave(attempt, 10 * step)
        assert all(
            (subtask_slot_of(each.transactional_id, topic_scope.prefix) is None) == (naming is HINT)
            for each in state.pending
        )
        expected += [10 * step + subtask for subtask in range(parallelism)]
    writers(1, state)
    topic_scope.await_ended()
    assert sorted(topic_scope.numbers()) == expected
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("error", [AuthorizationFailed, ListingUnsupported])
def test_A08_A09_a_walk_finds_what_a_wider_attempt_with_a_larger_pool_left_open(writers, topic_scope, error):
    """Between them ran a narrower attempt with a smaller pool: the bounds in the document only grow."""
    wide = writers(3, pool_size=7)
    previous = merged([writer.snapshot(1) for writer in wide])
    narrow = writers(1, previous, pool_size=2)
    narrow[0].write(1)
    state = narrow[0].snapshot(2)
    narrow[0].notify(2)
    for writer in wide:
        while writer._checkpoint_id % 7 < 5:
            writer.snapshot(writer._checkpoint_id)
        writer.write(2)
    late = [f"{topic_scope.prefix}-{subtask}.5" for subtask in range(3)]
    assert topic_scope.open_transactions() == late
    walking = Walking({"bootstrap.servers": topic_scope.bootstrap})
    walking.error = error
    hint = narrow[0].restored_hint
    ids = UsedIds(prefixes=[topic_scope.prefix], hint=hint, slots=state.slots, parallelism=1, pool_size=2)
    aborted = abort_lingering(walking, ids)
    walking.close()
    assert sorted(aborted) == late
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []


def test_A08_a_walk_of_a_first_start_finds_what_a_deleted_job_left_open(writers, topic_scope):
    """Whatever naming and pool it had; the new one knows nothing of either."""
    writers(4, naming=HINT)[3].write(1)
    writers(4, State(checkpoint_id=80, prefix=topic_scope.prefix), pool_size=90)[3].write(2)
    walking = Walking({"bootstrap.servers": topic_scope.bootstrap})
    idle = f"{topic_scope.prefix}-16"
    before = topic_scope.client.describe([idle])[idle].producer_epoch
    ids = UsedIds(prefixes=[topic_scope.prefix], hint=FIRST_HINT, parallelism=1, pool_size=5)
    aborted = abort_lingering(walking, ids)
    walking.close()
    assert aborted == (f"{topic_scope.prefix}-3.81",)
    assert topic_scope.client.describe([idle])[idle].producer_epoch > before, "fenced"
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_an_attempt_that_is_superseded_is_fenced_by_the_attempt_that_has_its_ids(writers, topic_scope):
    """The previous attempt was frozen. The new attempt has its ids, so it can neither write nor hold back readers."""
    (frozen,) = writers(1, pool_size=2)
    frozen.write(1)
    state = frozen.snapshot(1)
    (attempt,) = writers(1, state, pool_size=2)
    assert [each.outcome for each in attempt.settled] == [CommitOutcome.COMMITTED]
    frozen.write(100)  # under p-0.0, where nothing was open when the new attempt started
    assert topic_scope.open_transactions() == [f"{topic_scope.prefix}-0.0"]
    attempt.write(2)
    with pytest.raises(TransactionFenced):
        frozen.snapshot(2)
    attempt.snapshot(2)
    assert [each.outcome for each in attempt.notify(2)] == [CommitOutcome.COMMITTED]
    assert [each.outcome for each in frozen.committer().commit(state.pending)] == [CommitOutcome.COMMITTED], "harmless"
    attempt.write(3)
    attempt.snapshot(3)
    again = frozen.committer().commit(state.pending)
    assert [each.outcome for each in again] == [CommitOutcome.UNCERTAIN], "its triple has no meaning any more"
    assert [each.outcome for each in attempt.notify(3)] == [CommitOutcome.COMMITTED], (
        "and took nothing from the new life"
    )
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 2, 3]
    assert topic_scope.open_transactions() == []


def test_a_superseded_attempt_that_takes_an_id_over_costs_a_try_and_no_record(writers, topic_scope):
    """A retried task of the previous attempt opens a producer; the new attempt's pre-commit fails."""
    (frozen,) = writers(1)
    state = frozen.snapshot(1)
    (attempt,) = writers(1, state)
    attempt.write(1)
    topic_scope.await_written(1)
    frozen.write(100)
    with pytest.raises(TransactionFenced):
        attempt.snapshot(2)
    attempt._begun = False
    attempt.write(1)
    attempt.snapshot(2)
    with pytest.raises(TransactionFenced):
        frozen.snapshot(2)
    attempt.notify(2)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []


def test_A18_a_newer_transaction_under_a_committables_id_is_aborted(writers, topic_scope):
    """The pool shrank, so the next checkpoint is on the slot that the document still names."""
    (previous,) = writers(1, State(checkpoint_id=6, prefix=topic_scope.prefix), pool_size=5)
    previous.write(1)
    state = previous.snapshot(7)
    (attempt,) = writers(1, state, pool_size=3)
    attempt.write(2)
    assert topic_scope.open_transactions() == [state.pending[0].transactional_id] == [f"{topic_scope.prefix}-0.2"]
    (back,) = writers(1, state, pool_size=3)
    assert [each.outcome for each in back.settled] == [CommitOutcome.UNCERTAIN], "never COMMITTED by what came later"
    assert back.aborted == (f"{topic_scope.prefix}-0.2",)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize(("naming", "name"), [(HINT, "{}-{}"), (SLOT, "{}-0.{}")])
def test_T12_W15_the_slot_is_the_checkpoint_modulo_the_pool(writers, topic_scope, naming, name):
    (writer,) = writers(1, naming=naming, pool_size=3)
    for label in range(1, 6):
        writer.write(label)
        (committable,) = writer.snapshot(label).pending
        assert committable.transactional_id == name.format(topic_scope.prefix, label % 3)
        writer.notify(label)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 2, 3, 4, 5]
    assert [each.transactional_id for each in topic_scope.client.list_transactions(topic_scope.prefix)] == [
        name.format(topic_scope.prefix, slot) for slot in range(3)
    ]
