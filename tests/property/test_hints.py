"""Transactional ids over random attempts: H08 as a law, H20 as a state machine over the pure model."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkapp.clients.transactions.states import TransactionState
from sparkapp.model.checkpoint.slots import Slots
from sparkapp.model.errors import ProducersPoolEmpty
from sparkapp.model.transactional_id import (
    FIRST_HINT,
    TransactionalIdGenerator,
    TransactionalIdHint,
    number_of,
)
from sparkapp.sink.ending.lingering import select
from sparkapp.sink.ending.used_ids import bounded_ids

PREFIX = "p"
parallelisms = st.integers(1, 12)
pools = st.integers(2, 6)


def generators(parallelism: int, pool_size: int) -> list[TransactionalIdGenerator]:
    return [
        TransactionalIdGenerator(prefix=PREFIX, subtask=subtask, parallelism=parallelism, pool_size=pool_size)
        for subtask in range(parallelism)
    ]


@given(st.integers(1, 60), st.integers(1, 10))
def test_H08_abort_sets_are_disjoint_and_cover_the_range(parallelism, pool_size):
    every = [each for generator in generators(parallelism, pool_size) for each in generator.ids_to_abort()]
    assert len(every) == len(set(every))
    assert {number_of(each, PREFIX) for each in every} == set(range(5 * pool_size * parallelism))
    walked = bounded_ids(PREFIX, hint=FIRST_HINT, parallelism=parallelism, pool_size=pool_size)
    assert [number_of(each, PREFIX) for each in walked] == list(range(5 * pool_size * parallelism))


@given(st.integers(1, 60), st.integers(1, 10), st.integers(0, 10**6))
def test_H04_use_sets_are_disjoint_and_adjacent(parallelism, pool_size, next_free):
    every = [
        each for generator in generators(parallelism, pool_size) for each in generator.ids_to_use(next_free=next_free)
    ]
    assert [number_of(each, PREFIX) for each in every] == list(range(next_free, next_free + parallelism * pool_size))


@given(st.integers(0, 50), st.integers(0, 10**6), parallelisms, pools)
def test_H10_H12_a_hint_is_written_once_an_attempt_and_never_goes_back(last, next_free, parallelism, pool_size):
    restored = TransactionalIdHint(last, next_free)
    written = restored.advance(parallelism=parallelism, pool_size=pool_size)
    assert written.last_parallelism == parallelism
    assert written.next_free_transactional_id >= next_free
    grown = parallelism > last
    assert written.next_free_transactional_id == next_free + (parallelism * pool_size if grown else 0)
    again = written.advance(parallelism=parallelism, pool_size=pool_size)
    assert again == written, "restarting at the same parallelism keeps the ids"


@dataclass
class Attempt:
    """One attempt: what its subtasks wrote."""

    parallelism: int
    restored: TransactionalIdHint
    slots: list[Slots] = field(default_factory=list)
    checkpoint_id: int = 0

    def __post_init__(self) -> None:
        self.slots = [Slots() for _ in range(self.parallelism)]


class Rescaling(RuleBasedStateMachine):
    """H20: random sequences of checkpoints, crashes and rescaling.

    The broker is modelled by the open transactions it holds: id -> the (attempt, checkpoint) that opened it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[str, tuple[int, int]] = {}
        self.attempts = 0
        self.document_hint = FIRST_HINT
        self.document_checkpoint = 0
        self.committables: dict[str, tuple[int, int]] = {}
        self.reserved = 0

    @initialize(parallelism=parallelisms, pool_size=pools)
    def first_start(self, parallelism: int, pool_size: int) -> None:
        self.pool_size = pool_size
        self._start(parallelism)

    def _start(self, parallelism: int) -> None:
        restored = self.document_hint
        for transactional_id, opened in self.committables.items():
            assert self.open.get(transactional_id, opened) == opened, "a triple must not commit another transaction"
            self.open.pop(transactional_id, None)
        states = dict.fromkeys(self.open, TransactionState.ONGOING)
        for transactional_id in select(states, first_start=restored == FIRST_HINT).abort:
            del self.open[transactional_id]
        assert not self.open, "every open id belongs to a committable or is aborted at the start"
        self.committables = {}
        self.attempts += 1
        self.attempt = Attempt(parallelism, restored, checkpoint_id=self.document_checkpoint)
        self.reserved = max(self.reserved, restored.next_free_transactional_id + parallelism * self.pool_size)

    def _ids(self, subtask: int) -> list[str]:
        return TransactionalIdGenerator(
            prefix=PREFIX, subtask=subtask, parallelism=self.attempt.parallelism, pool_size=self.pool_size
        ).ids_to_use(next_free=self.attempt.restored.next_free_transactional_id)

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        """Some subtasks write records of the checkpoint that comes."""
        checkpoint = self.attempt.checkpoint_id + 1
        for subtask in data.draw(st.sets(st.integers(0, self.attempt.parallelism - 1))):
            transactional_id = self.attempt.slots[subtask].take(self._ids(subtask), checkpoint)
            held = self.open.get(transactional_id)
            assert held in (None, (self.attempts, checkpoint)), f"{transactional_id} is in use: {held}"
            assert transactional_id not in self.committables, "the document still names this id"
            self.open[transactional_id] = (self.attempts, checkpoint)

    @rule(commit=st.booleans())
    def checkpoint(self, commit: bool) -> None:
        """The document is written; unless the driver dies right then, its transactions are committed."""
        checkpoint = self.attempt.checkpoint_id + 1
        hint = self.attempt.restored.advance(parallelism=self.attempt.parallelism, pool_size=self.pool_size)
        self.document_hint, self.document_checkpoint = hint, checkpoint
        self.committables = dict(self.open)
        if not commit:
            self._start(self.attempt.parallelism)
            return
        self.open.clear()
        self.attempt.checkpoint_id = checkpoint
        for slots in self.attempt.slots:
            slots.settle(checkpoint)

    @rule(data=st.data())
    def retry_a_task(self, data: st.DataObject) -> None:
        """A failed task is tried again in the same process: the same id."""
        checkpoint = self.attempt.checkpoint_id + 1
        subtask = data.draw(st.integers(0, self.attempt.parallelism - 1))
        first = self.attempt.slots[subtask].take(self._ids(subtask), checkpoint)
        assert self.attempt.slots[subtask].take(self._ids(subtask), checkpoint) == first

    @rule(parallelism=parallelisms)
    def crash_and_rescale(self, parallelism: int) -> None:
        self._start(parallelism)

    @precondition(lambda self: self.attempt.checkpoint_id > 0)
    @rule(data=st.data())
    def run_ahead_of_the_commits(self, data: st.DataObject) -> None:
        """A writer that would begin a whole pool ahead is stopped before it reuses an id that the document names."""
        subtask = data.draw(st.integers(0, self.attempt.parallelism - 1))
        slots, ids = Slots(), self._ids(subtask)
        settled = self.attempt.checkpoint_id
        slots.settle(settled)
        taken = [slots.take(ids, settled)]
        for ahead in range(1, self.pool_size):
            taken.append(slots.take(ids, settled + ahead))
        assert len(set(taken)) == self.pool_size
        try:
            slots.take(ids, settled + self.pool_size)
        except ProducersPoolEmpty:
            return
        raise AssertionError("the newest settled checkpoint's id was given away")

    @invariant()
    def no_id_beyond_the_reserved_bound(self) -> None:
        assert all((number_of(each, PREFIX) or 0) < self.reserved for each in self.open)

    @invariant()
    def open_ids_are_within_what_walking_would_find(self) -> None:
        """Without the right to list, the walk of an attempt of this parallelism finds every id it opens."""
        if not self.open:
            return
        hint = self.document_hint
        walked = set(bounded_ids(PREFIX, hint=hint, parallelism=self.attempt.parallelism, pool_size=self.pool_size))
        assert set(self.open) <= walked


Rescaling.TestCase.settings = settings(max_examples=100, stateful_step_count=25)
test_H20_rescale_and_crash_sequences = Rescaling.TestCase
