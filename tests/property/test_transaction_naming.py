"""Both namings as laws: an id says what it is, and over any attempts nobody writes under another subtask's id."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sparkapp.cli.id_owner import owner_of
from sparkapp.clients.transactions.states import TransactionState
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import (
    MAX_PARALLELISM,
    MAX_POOL_SIZE,
    NO_SLOTS,
    SlotBounds,
    SubtaskSlot,
    TransactionNaming,
    is_of_prefix,
    pool_of_subtask,
    subtask_slot_of,
)
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint, number_of
from sparkapp.sink.ending.lingering import select
from sparkapp.sink.ending.used_ids import UsedIds

HINT, SLOT = TransactionNaming.HINT, TransactionNaming.SUBTASK_AND_SLOT
namings = st.sampled_from(list(TransactionNaming))
prefixes = st.text("a01.-_", min_size=1, max_size=8)
ids = st.tuples(namings, prefixes, st.integers(0, 30), st.integers(0, 30))
"""What an id is made of; small and alike, so that two of them often nearly meet."""


def named(naming: TransactionNaming, prefix: str, first: int, second: int) -> str:
    if naming is HINT:
        return pool_of_subtask(HINT, prefix=prefix, subtask=0, parallelism=1, pool_size=1, next_free=first)[0]
    return SubtaskSlot(first, second).named(prefix)


@given(ids, ids)
@settings(max_examples=500)
def test_A07_one_id_is_of_one_prefix_and_one_naming(each, another):
    (naming, prefix, *_), (_, foreign, *_) = each, another
    mine = named(*each)
    assert each[:2] == another[:2] or mine != named(*another)
    assert is_of_prefix(mine, prefix)
    assert is_of_prefix(mine, foreign) == (prefix == foreign)
    assert (number_of(mine, prefix) is not None, subtask_slot_of(mine, prefix) is not None) == (
        naming is HINT,
        naming is SLOT,
    )


@given(st.text("p-.0129٣+ \n", max_size=10))
def test_A07_whatever_has_a_place_is_the_id_of_that_place(text):
    """What is read as an id is written the same, so no second text is taken for it."""
    pair, number = subtask_slot_of(text, "p"), number_of(text, "p")
    assert pair is None or pair.named("p") == text
    assert number is None or f"p-{number}" == text


@given(st.integers(1, MAX_PARALLELISM), st.integers(1, MAX_POOL_SIZE), st.data())
def test_the_owner_of_an_id_is_the_subtask_and_slot_that_use_it(parallelism, pool_size, data):
    subtask = data.draw(st.integers(0, parallelism - 1))
    document = CheckpointDocument(
        job_uid="u", attempt=3, checkpoint_id=1, created_at="", parallelism=parallelism, prefix="p",
        slots=SlotBounds(parallelism, pool_size),
    )  # fmt: skip
    pool = pool_of_subtask(SLOT, prefix="p", subtask=subtask, parallelism=parallelism, pool_size=pool_size, next_free=0)
    for slot, each in enumerate(pool):
        owner = owner_of(each, document, pool_size=pool_size)
        assert owner is not None
        assert (owner.subtask, owner.slot) == (subtask, slot)


@dataclass(frozen=True)
class Attempt:
    """One attempt that got as far as to write."""

    number: int
    naming: TransactionNaming
    parallelism: int
    pool_size: int
    next_free: int

    def ids(self, subtask: int) -> list[str]:
        return pool_of_subtask(
            self.naming, prefix="p", subtask=subtask, parallelism=self.parallelism, pool_size=self.pool_size,
            next_free=self.next_free,
        )  # fmt: skip


class Renaming(RuleBasedStateMachine):
    """H20 with both namings: rescales, other pools, other namings, attempts that end before a first checkpoint,
    and previous attempts that continue too late.

    The broker is modelled by its open transactions: id -> the (attempt, subtask, checkpoint) that opened it
    last, and by that aborted what was open there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[str, tuple[int, int, int]] = {}
        self.hint, self.slots = FIRST_HINT, NO_SLOTS
        self.committables: dict[str, tuple[int, int, int]] = {}
        self.checkpoint_id = 0
        self.attempts: list[Attempt] = []

    @initialize(naming=namings, parallelism=st.integers(1, 6), pool_size=st.integers(2, 5))
    def first_start(self, naming: TransactionNaming, parallelism: int, pool_size: int) -> None:
        self.start(naming, parallelism, pool_size)

    @rule(naming=namings, parallelism=st.integers(1, 6), pool_size=st.integers(2, 5))
    def start(self, naming: TransactionNaming, parallelism: int, pool_size: int) -> None:
        """The next attempt, whatever became of the last: settles, aborts, and records the ids it will use."""
        for transactional_id, opened in self.committables.items():
            assert self.open.get(transactional_id, opened) == opened, "a triple must not commit another transaction"
            self.open.pop(transactional_id, None)
        ids = UsedIds(prefixes=["p"], hint=self.hint, slots=self.slots, parallelism=parallelism, pool_size=pool_size)
        walked = set(ids.walk())
        assert {each for each in self.open if subtask_slot_of(each, "p")} <= walked, (
            "a walk finds what any attempt has open"
        )
        ongoing = dict.fromkeys(self.open, TransactionState.ONGOING)
        for each in select(ongoing, first_start=ids.is_first_start).abort:
            del self.open[each]
        assert not self.open
        self.committables = {}
        attempt = Attempt(len(self.attempts), naming, parallelism, pool_size, self.hint.next_free_transactional_id)
        self.attempts.append(attempt)
        if naming is SLOT:
            self.slots = self.slots.with_attempt(parallelism=parallelism, pool_size=pool_size)
        self.restored = self.hint

    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        """Some subtasks write; the document names what they wrote, and unless the driver dies then it is committed."""
        attempt = self.attempts[-1]
        checkpoint = self.checkpoint_id + 1
        mine = {}
        for subtask in sorted(data.draw(st.sets(st.integers(0, attempt.parallelism - 1)))):
            transactional_id = attempt.ids(subtask)[checkpoint % attempt.pool_size]
            held = self.open.get(transactional_id)
            assert held is None or held[0] != attempt.number or held[1] == subtask, (
                "two subtasks of an attempt under one id"
            )
            assert transactional_id not in self.committables, "the document still names this id"
            self.open[transactional_id] = mine[transactional_id] = (attempt.number, subtask, checkpoint)
        if data.draw(st.booleans()):
            return  # it died with its transactions open, or continues and takes them over
        self.checkpoint_id = checkpoint
        if attempt.naming is HINT:
            self.hint = self.restored.advance(parallelism=attempt.parallelism, pool_size=attempt.pool_size)
        self.committables = mine
        if data.draw(st.booleans()):
            for each in mine:
                del self.open[each]
        else:
            self.start(attempt.naming, attempt.parallelism, attempt.pool_size)

    @rule(data=st.data())
    def a_previous_attempt_continues(self, data: st.DataObject) -> None:
        """It opens a transaction under an id of its own, which takes the id over from its producer."""
        attempt = data.draw(st.sampled_from(self.attempts))
        subtask = data.draw(st.integers(0, attempt.parallelism - 1))
        each = data.draw(st.sampled_from(attempt.ids(subtask)))
        if attempt is not self.attempts[-1] and each not in self.committables:
            self.open[each] = (attempt.number, subtask, -1)

    @invariant()
    def no_id_in_two_live_subtasks(self) -> None:
        for attempt in self.attempts[-1:]:
            every = [each for subtask in range(attempt.parallelism) for each in attempt.ids(subtask)]
            assert len(every) == len(set(every))

    @invariant()
    def a_hint_never_goes_back(self) -> None:
        assert self.hint.next_free_transactional_id >= getattr(self, "_seen", FIRST_HINT).next_free_transactional_id
        self._seen: TransactionalIdHint = self.hint


Renaming.TestCase.settings = settings(max_examples=100, stateful_step_count=25)
test_H20_rescale_rename_and_crash_sequences = Renaming.TestCase
