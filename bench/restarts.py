"""One restart as it was measured, and what is told of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from bench.restart_marks import ASKED, BESIDE, CHAIN, FLOWING, beside, phases
from bench.spread import Spread
from demo.table import render

GOAL_SECONDS = 10.0


class Kind(StrEnum):
    """What was done to the job."""

    KILL = "kill -9 of the driver"
    RESCALE = "kubectl scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A life that ended and the next one, up to the first record that a reader got of it.

    :param marks: moments in seconds since 1970, by the names of ``restart_marks``.
    :param silence: seconds of the longest time without a record for a reader.
    :param stable_seconds: from the end of the former life until nothing of it held readers back; None where it had
        left no transaction open.
    """

    kind: Kind
    attempt: int
    marks: Mapping[str, float]
    silence: float
    stable_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Until records flowed again."""
        return self.marks[FLOWING] - self.marks[ASKED]

    def as_json(self) -> dict[str, Any]:
        """With seconds only: moments mean nothing to anybody else."""
        return {
            "kind": self.kind.name, "attempt": self.attempt, "seconds": self.seconds, "silence": self.silence,
            "stableSeconds": self.stable_seconds, "phases": phases(self.marks), "beside": beside(self.marks),
        }  # fmt: skip

    def line(self) -> str:
        """What is told as soon as it is over."""
        stable = "nothing left open" if self.stable_seconds is None else f"stable after {self.stable_seconds:.1f} s"
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases(self.marks).items())
        return (
            f"{self.kind.value}: flowing after {self.seconds:.1f} s ({parts}), silence {self.silence:.1f} s, {stable}"
        )


@dataclass
class Restarts:
    """All of them."""

    found: list[Restart] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Restart]:
        return [one for one in self.found if one.kind is kind]

    def as_json(self) -> dict[str, Any]:
        return {
            "restarts": [one.as_json() for one in self.found],
            "summary": {
                name: {"count": one.count, "p50": one.p50, "p95": one.p95, "max": one.highest, "goal": GOAL_SECONDS}
                for name, one in self._summary()
            },
        }

    def tables(self) -> str:
        """The summary, and for each kind where the seconds go."""
        header = ("seconds", "count", "p50", "p95", "max", "goal p95")
        rows: list[Sequence[object]] = [
            (name, one.count, one.p50, one.p95, one.highest, GOAL_SECONDS) for name, one in self._summary()
        ]
        parts = [render(header, rows)]
        for kind in Kind:
            restarts = self.of(kind)
            if restarts:
                chain = _spreads([phases(one.marks) for one in restarts], CHAIN)
                also = _spreads([beside(one.marks) for one in restarts], BESIDE)
                parts.append(
                    render((f"{kind.value}: seconds until", "count", "p50", "p95", "max"), chain)
                    + ("\n" + render(("beside, from the start:", "count", "p50", "p95", "max"), also) if also else "")
                )
        return "\n\n".join(parts)

    def _summary(self) -> list[tuple[str, Spread]]:
        stable = [one.stable_seconds for one in self.found if one.stable_seconds is not None]
        figures = {
            "kill to flowing": [one.seconds for one in self.of(Kind.KILL)],
            "silence of a kill": [one.silence for one in self.of(Kind.KILL)],
            "last stable offset free": stable,
            "rescale to flowing": [one.seconds for one in self.of(Kind.RESCALE)],
            "silence of a rescale": [one.silence for one in self.of(Kind.RESCALE)],
        }
        return [(name, spread) for name, found in figures.items() if (spread := Spread.of(found)) is not None]


class Site(Protocol):
    """A job under way with records coming in, and how to end its life."""

    def kill(self) -> Restart: ...

    def rescale(self) -> Restart: ...

    def judge(self) -> str:
        """Stops the records and compares source and sink; the words of the count.

        :raises SystemExit: not every record is there exactly once.
        """
        ...


def _spreads(found: Sequence[Mapping[str, float]], names: Sequence[str]) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    for name in names:
        spread = Spread.of([one[name] for one in found if name in one])
        if spread is not None:
            rows.append((name, spread.count, spread.p50, spread.p95, spread.highest))
    return rows
