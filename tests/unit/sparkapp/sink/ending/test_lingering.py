"""What abort_lingering asks a control plane for; that it aborts is proven against a real broker (group A)."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from sparkapp.clients.transactions.states import TransactionDescription, TransactionState, state_of
from sparkapp.model.checkpoint.naming import NO_SLOTS, SlotBounds
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.used_ids import UsedIds
from tests.support.fakes.transaction_client import FakeTransactionClient

S = TransactionState
DESCRIPTION = TransactionDescription(state=S.EMPTY, producer_id=1, producer_epoch=0, timeout_ms=1, start_time_ms=-1)
LATER = TransactionalIdHint(1, 5)


def client(*, listing=True, **scripts):
    """Ids with a script of states; the last one stays."""
    described = {
        name.replace("_", "-"): [replace(DESCRIPTION, state=state) for state in states]
        for name, states in scripts.items()
    }
    return FakeTransactionClient(described, may_list=listing)


def fenced(control):
    return [name for names in control.ids_of("fence") for name in names]


def run(control, *prefixes, hint=LATER, slots=NO_SLOTS, timeout=5.0):
    ids = UsedIds(prefixes=prefixes or ("p",), hint=hint, slots=slots, parallelism=1, pool_size=5)
    return abort_lingering(control, ids, timeout=timeout)


def test_open_ones_are_fenced_others_left_alone():
    control = client(p_0=[S.ONGOING], p_1=[S.COMPLETE_COMMIT], p_2=[S.EMPTY], p_3=[S.PREPARE_EPOCH_FENCE])
    assert run(control) == ("p-0", "p-3") == tuple(fenced(control))


@pytest.mark.parametrize("is_open", [S.ONGOING, S.PREPARE_EPOCH_FENCE])
@pytest.mark.parametrize("other", [S.COMPLETE_COMMIT, S.COMPLETE_ABORT, S.EMPTY, S.PREPARE_COMMIT])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_open_in_one_list_is_fenced_whatever_another_says(is_open, other, first):
    """Two brokers list the id, and one of them has lost its role."""
    control = client(p_0=[is_open, other] if first else [other, is_open])
    lists = [control.list_transactions("p") for _ in range(2)]
    control.list_transactions = lambda prefix, *, deadline=None: [row for rows in lists for row in rows]
    assert run(control) == ("p-0",) == tuple(fenced(control))


def test_what_is_ending_is_awaited_not_fenced():
    control = client(
        p_0=[S.PREPARE_COMMIT, S.PREPARE_COMMIT, S.COMPLETE_COMMIT], p_1=[S.PREPARE_ABORT, S.COMPLETE_ABORT]
    )
    assert run(control) == ()
    assert fenced(control) == []
    assert control.ids_of("describe") == [["p-0", "p-1"], ["p-0"]]


def test_what_a_zombie_opens_meanwhile_is_fenced():
    control = client(p_0=[S.PREPARE_ABORT, S.ONGOING])
    assert run(control) == ("p-0",)
    assert fenced(control) == ["p-0"]


def test_what_never_ends_is_an_error_in_time():
    with pytest.raises(KafkaUnreachable, match="p-0"):
        run(client(p_0=[S.PREPARE_COMMIT]), timeout=0.1)


def test_every_prefix_is_listed_once():
    control = client(p_0=[S.ONGOING], old_7=[S.ONGOING], other_1=[S.ONGOING])
    assert run(control, "p", "old", "p") == ("p-0", "old-7")


def test_H09_a_first_start_fences_idle_ids_too():
    control = client(p_0=[S.ONGOING], p_1=[S.COMPLETE_COMMIT], p_2=[S.PREPARE_COMMIT, S.COMPLETE_COMMIT])
    assert run(control, hint=FIRST_HINT) == ("p-0",)
    assert fenced(control) == ["p-0", "p-1"]


@pytest.mark.parametrize(
    ("hint", "slots", "bound", "subtasks", "pool"),
    [
        (FIRST_HINT, NO_SLOTS, 25, 5, 100),
        (FIRST_HINT, SlotBounds(2, 7), 25, 2, 7),
        (TransactionalIdHint(1, 5), NO_SLOTS, 30, 0, 0),
        (TransactionalIdHint(3, 15), SlotBounds(4, 3), 90, 4, 3),
    ],
)
def test_without_listing_the_bounded_ids_of_both_namings_are_walked(hint, slots, bound, subtasks, pool):
    control = client(listing=False, p_0=[S.COMPLETE_COMMIT], p_4=[S.ONGOING])
    assert run(control, hint=hint, slots=slots) == ("p-4",)
    assert control.ids_of("describe")[0] == [
        *(f"p-{number}" for number in range(bound)),
        *(f"p-{subtask}.{slot}" for subtask in range(subtasks) for slot in range(pool)),
        "p-offsets",
    ]


def test_without_listing_a_walk_of_any_length_takes_no_memory():
    """A hint of an edited document, or of a job of many years, may be that large."""
    control = client(listing=False)

    def out_of_time(ids, *, deadline=None):
        assert list(islice(ids, 3)) == ["p-0", "p-1", "p-2"]
        raise KafkaUnreachable("not within the time allowed")

    control.describe = out_of_time
    with pytest.raises(KafkaUnreachable):
        run(control, hint=TransactionalIdHint(1, 10**17))


@pytest.mark.parametrize("slots", [NO_SLOTS, SlotBounds(1, 2)])
def test_H09_a_job_that_has_had_ids_by_subtask_and_slot_is_not_at_its_first_start(slots):
    """Its document may name idle ids, whose triples have to keep their meaning."""
    control = client(**{"p_0.0": [S.COMPLETE_COMMIT], "p_0.1": [S.ONGOING]})
    assert run(control, hint=FIRST_HINT, slots=slots) == ("p-0.1",)
    assert fenced(control) == ["p-0.1", *(["p-0.0"] if slots == NO_SLOTS else [])]


def test_a_state_of_a_newer_broker_is_neither_open_nor_over():
    assert state_of("PreparedTwoPhase") is S.UNKNOWN
    assert not S.UNKNOWN.open
    assert not S.UNKNOWN.ending
    assert {each for each in S if each.open} == {S.ONGOING, S.PREPARE_EPOCH_FENCE}
