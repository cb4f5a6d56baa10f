"""Group A, ownership of transactional ids and their naming.

Flink hands each subtask a share of the previous subtasks' ids, read from its own piece of the state. Here the driver
settles and aborts for the whole job before any subtask writes, so the promises behind these cases become: the ids of a
attempt are divided among its subtasks without overlap or gap, every id of a previous attempt has one owner who ends
it, and a state that contradicts itself is refused.
"""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
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
