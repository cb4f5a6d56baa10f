"""Whose a transactional id is, read back from the hint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.cli.id_owner import owner_of
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdGenerator, TransactionalIdHint

# An attempt with two subtasks, then an attempt with four that completed a checkpoint: hint {4, 10 + 20}.
DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=7, checkpoint_id=12, created_at="2026-11-21T12:00:00Z", parallelism=4, prefix="p",
    previous_prefixes=("old",), hint=TransactionalIdHint(2, 10).advance(parallelism=4, pool_size=5),
)  # fmt: skip


def place(transactional_id: str, document: CheckpointDocument = DOCUMENT) -> tuple[int | None, int | None]:
    owner = owner_of(transactional_id, document, pool_size=5)
    assert owner is not None
    return owner.subtask, owner.slot


@pytest.mark.parametrize(("next_free", "parallelism"), [(10, 4), (30, 4), (30, 3)])
def test_an_id_is_read_back_to_the_subtask_and_slot_that_use_it(next_free: int, parallelism: int) -> None:
    for subtask in range(parallelism):
        generator = TransactionalIdGenerator(prefix="p", subtask=subtask, parallelism=parallelism, pool_size=5)
        for slot, name in enumerate(generator.ids_to_use(next_free=next_free)):
            assert place(name) == (subtask, slot)


def test_attempts_are_distinguished() -> None:
    owners = [owner_of(f"p-{number}", DOCUMENT, pool_size=5) for number in (9, 10, 29, 30)]
    assert [owner and owner.attempt for owner in owners] == [
        "an attempt before the last growth", "the attempt that first ran with parallelism 4",
        "the attempt that first ran with parallelism 4", "attempt 7 or the attempt before",
    ]  # fmt: skip


def test_before_the_first_checkpoint_every_id_is_the_attempts() -> None:
    assert place("p-7", replace(DOCUMENT, hint=FIRST_HINT)) == (1, 2)


def test_a_committable_says_more_than_the_hint() -> None:
    named = KafkaCommittable(
        transactional_id="p-17", producer_id=1, producer_epoch=0, checkpoint_id=12, subtask=1,
        records=3,
    )  # fmt: skip
    owner = owner_of("p-17", replace(DOCUMENT, committables=(named,)), pool_size=5)
    assert owner is not None
    assert (owner.subtask, owner.slot, owner.attempt) == (1, 2, "checkpoint 12 names it as final")


def test_other_prefixes() -> None:
    assert owner_of("other-3", DOCUMENT, pool_size=5) is None
    previous = owner_of("old-3", DOCUMENT, pool_size=5)
    assert previous is not None
    assert (previous.subtask, previous.attempt) == (None, "an attempt with a previous prefix")


def test_by_subtask_and_slot_an_id_has_both_and_every_attempt_uses_it() -> None:
    document = replace(DOCUMENT, slots=SlotBounds(6, 5))
    assert place("p-3.4", document) == (3, 4)
    owners = [owner_of(name, document, pool_size=2) for name in ("p-5.4", "p-6.0", "p-0.5", "old-3.1", "p-30", "p-29")]
    assert [owner and owner.attempt for owner in owners] == [
        "attempt 7 or any before it", "an unknown attempt", "an unknown attempt", "an attempt with a previous prefix",
        "the last attempts that were named by hint", "the attempt that first ran with parallelism 4",
    ]  # fmt: skip
    assert place("old-3.1", document) == (3, 1)
    assert owner_of("other-3.1", document, pool_size=5) is None


def test_a_committable_by_subtask_and_slot_has_the_slot_of_its_id() -> None:
    """Whatever the pool's size is by now."""
    named = KafkaCommittable(
        transactional_id="p-1.4", producer_id=1, producer_epoch=0, checkpoint_id=14, subtask=1,
        records=3,
    )  # fmt: skip
    owner = owner_of("p-1.4", replace(DOCUMENT, slots=SlotBounds(4, 5), committables=(named,)), pool_size=3)
    assert owner is not None
    assert (owner.subtask, owner.slot, owner.attempt) == (1, 4, "checkpoint 14 names it as final")


def test_the_drivers_id_is_no_subtasks() -> None:
    owner = owner_of("p-offsets", DOCUMENT, pool_size=5)
    assert owner is not None
    assert (owner.subtask, owner.slot, owner.attempt) == (None, None, "the driver of any attempt: offsets alone")
