"""Tests with many parameters: any two values meet in a test, and not every combination has a test of its own.

A failure that needs three values at once is for the long form, with ``--matrix``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

Pair = tuple[tuple[str, Hashable], tuple[str, Hashable]]


def covering(rows: Sequence[Mapping[str, Hashable]]) -> list[int]:
    """Some of the rows, so that two values which a row has are together in a chosen row, too.

    Greedy, and the same at each call: the row with the most new pairs is next.

    :param rows: each a value for every parameter, by name.
    :returns: the numbers of the chosen rows, in ascending order.
    """
    pairs = [_pairs(row) for row in rows]
    missing = set().union(*pairs)
    chosen = []
    while missing:
        best = max(range(len(rows)), key=lambda number: len(pairs[number] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return sorted(chosen)


def _pairs(row: Mapping[str, Hashable]) -> set[Pair]:
    if len(row) == 1:
        (value,) = row.items()
        return {(value, value)}
    return set(combinations(sorted(row.items(), key=lambda item: item[0]), 2))
