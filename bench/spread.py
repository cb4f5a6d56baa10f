"""Statistics of figures that differ from run to run. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Compared = TypeVar("Compared")


def percentile(figures: Sequence[float], share: float) -> float:
    """The smallest figure that ``share`` of all figures do not exceed, by nearest rank, without interpolation.

    :param share: of 0 to 1. With few figures a high share is simply the largest.
    :raises ValueError: there are no figures, or the share is not from 0 to 1.
    """
    if not figures or not 0 <= share <= 1:
        msg = f"no percentile {share} of {len(figures)} figures"
        raise ValueError(msg)
    rank = max(1, math.ceil(round(share * len(figures), 9)))
    return sorted(figures)[rank - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Figures of runs: how many, their median, and how far apart they are."""

    count: int
    lowest: float
    median: float
    p95: float
    highest: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread | None:
        """None where there are no figures."""
        if not figures:
            return None
        return cls(
            count=len(figures), lowest=min(figures), median=statistics.median(figures), p95=percentile(figures, 0.95),
            highest=max(figures),
        )  # fmt: skip


def alternating(pairs: int, a: Compared, b: Compared) -> list[tuple[Compared, Compared]]:
    """The order of each pair of runs: A B, B A, A B, B A …

    Drift over the minutes of a bench (a broker's page cache, other load) then favours neither of the two.
    """
    return [(a, b) if number % 2 == 0 else (b, a) for number in range(pairs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """How A compares to B over pairs of runs, as ratios of their rates: 0.97 is 3 % slower.

    :param error: standard error of the mean of the logarithms, so a share of the ratio; 0 for one pair.
    """

    ratios: tuple[float, ...]
    mean: float
    error: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> PairedRatio:
        """
        :param pairs: rates of A and B in adjacent runs.
        :raises ValueError: no pairs.
        """
        ratios = tuple(a / b for a, b in pairs)
        if not ratios:
            msg = "no pairs of runs"
            raise ValueError(msg)
        logarithms = [math.log(ratio) for ratio in ratios]
        error = statistics.stdev(logarithms) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0
        return cls(ratios=ratios, mean=math.exp(statistics.fmean(logarithms)), error=error)

    @property
    def median(self) -> float:
        """The middle ratio."""
        return statistics.median(self.ratios)
