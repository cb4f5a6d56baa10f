"""What benches say about figures that differ from run to run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.spread import PairedRatio, Spread, alternating, percentile

FIGURES = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


@pytest.mark.parametrize(
    ("figures", "share", "expected"),
    [
        ([3.0], 0.95, 3.0), ([1.0, 2.0], 0.5, 1.0), ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0), ([1.0, 2.0], 0, 1.0),
        (list(range(1, 21)), 0.95, 19), (list(range(1, 11)), 0.95, 10), (list(range(1, 101)), 0.95, 95),
        # 0.07 * 100 is a little more than 7 in binary fractions.
        (list(range(1, 101)), 0.07, 7),
    ],
)  # fmt: skip
def test_percentile_is_the_figure_of_the_nearest_rank(figures: list[float], share: float, expected: float) -> None:
    assert percentile(figures, share) == expected


@given(FIGURES, st.floats(0, 1))
def test_no_fewer_than_the_share_are_at_or_below_a_percentile(figures: list[float], share: float) -> None:
    found = percentile(figures, share)
    assert found in figures
    assert sum(figure <= found for figure in figures) >= share * len(figures) - 1e-6


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="no percentile"):
        percentile([1.0], 1.5)


def test_spread_of_nothing_is_none() -> None:
    assert Spread.of([]) is None
    assert Spread.of([2.0, 9.0, 4.0]) == Spread(count=3, lowest=2.0, median=4.0, p95=9.0, highest=9.0)


def test_runs_alternate_so_that_neither_is_always_first() -> None:
    assert alternating(3, "a", "b") == [("a", "b"), ("b", "a"), ("a", "b")]
    assert alternating(0, "a", "b") == []


def test_ratio_of_pairs() -> None:
    ratio = PairedRatio.of([(90.0, 100.0), (100.0, 90.0)])
    assert ratio.mean == pytest.approx(1.0), "as much faster as slower is the same"
    assert ratio.median == pytest.approx((0.9 + 1 / 0.9) / 2)
    assert ratio.error > 0.1
    assert PairedRatio.of([(97.0, 100.0)]).error == 0
    with pytest.raises(ValueError, match="no pairs"):
        PairedRatio.of([])


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=20), st.floats(0.5, 2))
def test_a_constant_ratio_is_found_without_error(rates: list[float], ratio: float) -> None:
    found = PairedRatio.of([(rate * ratio, rate) for rate in rates])
    assert found.mean == pytest.approx(ratio)
    assert found.error == pytest.approx(0, abs=1e-9)
