"""Figures of runs, their medians and their ratios. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.spread import Spread, percentile

RATE, WHOLE, CPU, MEMORY = "recordsPerSecond", "wholeRecordsPerSecond", "cpuSecondsPerMillion", "peakMebibytes"
CORES = "cores"
QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
"""Names of the figures of latency, in milliseconds, and their shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a contestant in one round.

    :param variant: the contestant's name, for latency with its pace.
    :param figures: by the names above; empty for a run that failed.
    :param failure: the cause; empty for a run that did not.
    """

    workload: str
    variant: str
    round: int
    figures: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""


def quantiles(millis: Sequence[float]) -> dict[str, float]:
    """The quantiles of latencies, by nearest rank.

    :raises ValueError: there are none.
    """
    ordered = sorted(millis)
    return {name: percentile(ordered, share) for name, share in QUANTILES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All runs of a bench, with what they ran on.

    :param environment: machine, versions, date and options, as JSON has them.
    """

    environment: Mapping[str, Any]
    rounds: int
    runs: tuple[Run, ...]

    def figure(self, workload: str, variant: str, name: str) -> Spread | None:
        """The figure of a variant; None unless every round has it, because a median of other rounds says nothing."""
        found = self._by_round(workload, variant, name)
        return Spread.of(list(found.values())) if len(found) == self.rounds else None

    def ratio(self, workload: str, variant: str, base: str, name: str) -> Spread | None:
        """A variant's figure by that of another variant in the same round; None unless every round has both."""
        ours, theirs = self._by_round(workload, variant, name), self._by_round(workload, base, name)
        if not len(ours) == len(theirs) == self.rounds or not all(theirs.values()):
            return None
        return Spread.of([figure / theirs[number] for number, figure in ours.items()])

    def ran(self, workload: str) -> bool:
        """Whether any run of the workload has figures."""
        return any(run.workload == workload and run.figures for run in self.runs)

    def failures(self, workload: str, variant: str) -> tuple[str, ...]:
        """The causes of failed runs."""
        return tuple(run.failure for run in self._of(workload, variant) if run.failure)

    def as_json(self) -> dict[str, Any]:
        """Everything, for ``artifacts``."""
        return {
            "environment": dict(self.environment),
            "rounds": self.rounds,
            "runs": [asdict(run) for run in self.runs],
        }

    def _of(self, workload: str, variant: str) -> list[Run]:
        return [run for run in self.runs if (run.workload, run.variant) == (workload, variant)]

    def _by_round(self, workload: str, variant: str, name: str) -> dict[int, float]:
        return {run.round: run.figures[name] for run in self._of(workload, variant) if name in run.figures}
