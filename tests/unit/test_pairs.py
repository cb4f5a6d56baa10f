"""The short form of tests with the mark ``pairs`` has every pair of values, and the long form every combination."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pairs import covering

ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/integration/protocol/test_semantics.py"
NAME = "test_T10_from_exactly_once_to_at_least_once"
MOMENTS, NAMINGS, FIRST = 5, 2, 2


def rows_of(sizes: list[int]) -> list[dict[str, int]]:
    return [
        {f"p{place}": value for place, value in enumerate(values)} for values in product(*(range(n) for n in sizes))
    ]


def pairs_of(rows: list[dict[str, int]]) -> set[tuple[tuple[str, int], ...]]:
    return {pair for row in rows for pair in combinations(sorted(row.items()), min(2, len(row)))}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_every_two_values_meet(sizes: list[int]) -> None:
    rows = rows_of(sizes)
    chosen = [rows[number] for number in covering(rows)]
    assert pairs_of(chosen) == pairs_of(rows)
    assert len(chosen) <= len(rows)


def test_it_chooses_about_as_many_as_the_two_longest_parameters_have_pairs() -> None:
    assert len(covering(rows_of([5, 2, 2, 2]))) == 10
    assert len(covering(rows_of([2, 2, 2, 2]))) <= 6
    assert covering(rows_of([3])) == [0, 1, 2]


@pytest.mark.parametrize(("options", "count"), [([], MOMENTS * NAMINGS), (["--matrix"], MOMENTS * NAMINGS * FIRST)])
def test_the_long_form_has_every_combination(options: list[str], count: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", TABLE, *options]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found.count(f"::{NAME}[") == count
