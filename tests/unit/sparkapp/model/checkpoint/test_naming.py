"""The two namings of transactional ids: no id is of two of them, or of two prefixes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sparkapp.model.checkpoint.naming import (
    MAX_PARALLELISM,
    MAX_POOL_SIZE,
    NO_SLOTS,
    SlotBounds,
    SubtaskSlot,
    TransactionNaming,
    is_of_prefix,
    offsets_id,
    order_of,
    pattern_of,
    pool_of_subtask,
    subtask_slot_of,
)
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.transactional_id import number_of

HINT, SLOT = TransactionNaming.HINT, TransactionNaming.SUBTASK_AND_SLOT
DEFINITION = Path(__file__).parents[5] / "crds/kafkasparkjobs.yaml"


def pool(naming: TransactionNaming, subtask: int, **changes: int) -> list[str]:
    numbers = {"parallelism": 2, "pool_size": 3, "next_free": 20, **changes}
    return pool_of_subtask(naming, prefix="p", subtask=subtask, **numbers)


def test_by_hint_a_subtask_has_the_numbers_that_it_gives() -> None:
    assert pool(HINT, 1) == ["p-23", "p-24", "p-25"]


def test_by_subtask_and_slot_neither_the_hint_nor_the_parallelism_moves_an_id() -> None:
    ids = ["p-1.0", "p-1.1", "p-1.2"]
    assert pool(SLOT, 1) == pool(SLOT, 1, next_free=0) == pool(SLOT, 1, parallelism=9) == ids
    assert pool(SLOT, 1, pool_size=4)[:3] == ids


@pytest.mark.parametrize("naming", TransactionNaming)
@pytest.mark.parametrize("wrong", [{"subtask": 2}, {"subtask": -1}, {"subtask": 0, "pool_size": 0}])
def test_H17_a_subtask_outside_of_the_parallelism_has_no_ids(naming: TransactionNaming, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        pool(naming, **wrong)


@pytest.mark.parametrize(
    "foreign",
    [
        "p-1", "p-1.", "p-.1", "p-1.2.3", "p-01.2", "p-1.02", "p--1.2", "p-+1.2", "p-1.x", "p-1,2", "p-1.2 ", "p-1.2\n",
        "p-0-1.2", "p.1-1.2", "1.2", "p-٣.٤", "p-1.-2", "", "p", f"p-1.{'9' * 5000}",
    ],
)  # fmt: skip
def test_A07_what_is_not_an_id_of_the_prefix_and_the_naming_has_no_place(foreign: str) -> None:
    assert subtask_slot_of(foreign, "p") is None


@pytest.mark.parametrize(
    ("transactional_id", "prefix"),
    [
        ("a-1.2", "a"),
        ("a-1.2-3", "a-1.2"),
        ("a-1.2-3.4", "a-1.2"),
        ("a-1-2.3", "a-1"),
        ("a--1.2", "a-"),
        ("a.-3", "a."),
    ],
)
def test_A07_of_all_prefixes_that_an_id_begins_with_it_is_of_one(transactional_id: str, prefix: str) -> None:
    beginnings = [transactional_id[:end] for end in range(1, len(transactional_id))]
    assert [each for each in beginnings if is_of_prefix(transactional_id, each)] == [prefix]
    assert (number_of(transactional_id, prefix) is None) != (subtask_slot_of(transactional_id, prefix) is None)


@pytest.mark.parametrize("prefix", ["a", "a-offsets", "a-1", "a-1.2"])
def test_A1_the_drivers_id_is_of_its_prefix_and_no_subtasks(prefix: str) -> None:
    item = offsets_id(prefix)
    assert [each for each in ("a", "a-offsets", "a-1", "a-1.2") if is_of_prefix(item, each)] == [prefix]
    assert (number_of(item, prefix), subtask_slot_of(item, prefix)) == (None, None)
    assert re.fullmatch(pattern_of(prefix), item)


def test_a_number_too_long_for_any_hint_is_foreign() -> None:
    assert number_of(f"p-{'9' * 5000}", "p") is None
    assert number_of(f"p-{10**18}", "p") == 10**18


def test_ids_are_in_the_order_of_their_numbers() -> None:
    ids = ["p-2", "p-10", "p-2.9", "p-2.10", "p-10.0", "p-offsets"]
    assert sorted(reversed(ids), key=lambda each: order_of(each, "p")) == ids


def test_bounds_only_grow() -> None:
    wide = NO_SLOTS.with_attempt(parallelism=4, pool_size=2)
    both = wide.with_attempt(parallelism=1, pool_size=5)
    assert (wide, both) == (SlotBounds(4, 2), SlotBounds(4, 5))
    assert len(list(both.ids("p"))) == len(set(both.ids("p"))) == 20
    assert SubtaskSlot(3, 4) in both
    assert SubtaskSlot(4, 0) not in both
    assert SubtaskSlot(0, 5) not in both


@pytest.mark.parametrize("wrong", [(-1, 0), (0, 1), (1, 0), (MAX_PARALLELISM + 1, 1), (1, MAX_POOL_SIZE + 1)])
def test_bounds_that_cannot_be(wrong: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgument):
        SlotBounds(*wrong)


def test_the_limits_are_the_resources() -> None:
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    transactions = spec["sink"]["properties"]["transactions"]["properties"]
    assert spec["parallelism"]["maximum"] == MAX_PARALLELISM
    assert transactions["producersPoolSize"]["maximum"] == MAX_POOL_SIZE
    assert transactions["naming"]["enum"] == list(TransactionNaming)
