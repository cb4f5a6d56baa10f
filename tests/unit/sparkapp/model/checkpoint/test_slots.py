"""Slots: which id a checkpoint writes under, and when an id is free again."""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.slots import Slots
from sparkapp.model.errors import InvalidArgument, ProducersPoolEmpty

IDS = ["p-10", "p-11", "p-12"]


def test_the_slot_is_the_checkpoint_modulo_the_pool():
    slots = Slots()
    assert [slots.take(IDS, checkpoint) for checkpoint in (3, 4, 5)] == IDS


def test_a_retry_of_the_same_checkpoint_gets_the_same_id():
    slots = Slots()
    assert slots.take(IDS, 4) == slots.take(IDS, 4) == "p-11"


@pytest.mark.parametrize(("settled", "free"), [(None, False), (0, False), (1, False), (2, True), (3, True)])
def test_T15_W12_W13_an_id_is_free_when_a_newer_checkpoint_is_settled(settled, free):
    slots = Slots()
    slots.take(IDS, 1)
    if settled is not None:
        slots.settle(settled)
    if free:
        assert slots.take(IDS, 4) == "p-11"
    else:
        with pytest.raises(ProducersPoolEmpty, match=r"^Too many ongoing snapshots: p-11") as caught:
            slots.take(IDS, 4)
        assert "producersPoolSize" in caught.value.remedy


def test_settling_never_goes_back():
    slots = Slots()
    slots.take(IDS, 1)
    slots.settle(3)
    slots.settle(0)
    assert slots.take(IDS, 4) == "p-11"


def test_subtasks_of_one_process_do_not_meet():
    slots = Slots()
    slots.take(IDS, 1)
    assert slots.take(["p-13", "p-14", "p-15"], 1) == "p-14"


@pytest.mark.parametrize(("ids", "checkpoint"), [([], 1), (IDS, -1)])
def test_arguments_that_cannot_be(ids, checkpoint):
    with pytest.raises(InvalidArgument):
        Slots().take(ids, checkpoint)
