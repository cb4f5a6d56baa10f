"""A measured restart, and the figures of many restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from bench.restart.marks import ASKED, CHAIN, CONCURRENT, FLOWING, concurrent, phases
from bench.spread import Spread
from clusterjob.table import render

GOAL_SECONDS = 10.0


class Kind(StrEnum):
    """The cause of a restart."""

    KILL = "kill -9 of the driver"
    RESCALE = "rescale"
    TAKEOVER = "takeover"
    WORKER = "kill -9 of a Python worker"
    FREEZE = "freeze of a Python worker"
    EXECUTOR = "kill -9 of an executor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The end of an attempt and the start of the next attempt, up to its first record for a reader.

    :param marks: moments in seconds since 1970, by the names of ``restart_marks``.
    :param silence: seconds of the longest time without a record for a reader; in a takeover by the records' own times.
    :param stable_seconds: from the end of the previous attempt until none of its transactions held readers back; None
        if it left none open.
    """

    kind: Kind
    attempt: int
    marks: Mapping[str, float]
    silence: float
    stable_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds until records flowed again."""
        return self.marks[FLOWING] - self.marks[ASKED]

    def as_json(self) -> dict[str, Any]:
        """The restart in seconds, without moments of the clock."""
        return {
            "kind": self.kind.name, "attempt": self.attempt, "seconds": self.seconds, "silence": self.silence,
            "stableSeconds": self.stable_seconds, "phases": phases(self.marks), "concurrent": concurrent(self.marks),
        }  # fmt: skip

    def line(self) -> str:
        """A line to print when the restart is over."""
        stable = "nothing left open" if self.stable_seconds is None else f"stable after {self.stable_seconds:.1f} s"
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases(self.marks).items())
        return (
            f"{self.kind.value}: flowing after {self.seconds:.1f} s ({parts}), silence {self.silence:.1f} s, {stable}"
        )


@dataclass
class Restarts:
    """All restarts of a bench."""

    found: list[Restart] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Restart]:
        """The restarts of a kind."""
        return [restart for restart in self.found if restart.kind is kind]

    def as_json(self) -> dict[str, Any]:
        return {
            "restarts": [restart.as_json() for restart in self.found],
            "summary": {
                name: {
                    "count": spread.count,
                    "p50": spread.median,
                    "p95": spread.p95,
                    "max": spread.highest,
                    "goal": GOAL_SECONDS,
                }
                for name, spread in self._summary()
            },
        }

    def tables(self) -> str:
        """The summary, and for each kind where the seconds go."""
        header = ("seconds", "count", "p50", "p95", "max", "goal p95")
        rows: list[Sequence[object]] = [
            (name, spread.count, spread.median, spread.p95, spread.highest, GOAL_SECONDS)
            for name, spread in self._summary()
        ]
        parts = [render(header, rows)]
        for kind in Kind:
            restarts = self.of(kind)
            if restarts:
                chain = _spreads([phases(restart.marks) for restart in restarts], CHAIN)
                also = _spreads([concurrent(restart.marks) for restart in restarts], CONCURRENT)
                parts.append(
                    render((f"{kind.value}: seconds until", "count", "p50", "p95", "max"), chain)
                    + ("\n" + render(("concurrent, from start:", "count", "p50", "p95", "max"), also) if also else "")
                )
        return "\n\n".join(parts)

    def _summary(self) -> list[tuple[str, Spread]]:
        stable = [restart.stable_seconds for restart in self.found if restart.stable_seconds is not None]
        figures = {
            "kill to flowing": [restart.seconds for restart in self.of(Kind.KILL)],
            "silence of a kill": [restart.silence for restart in self.of(Kind.KILL)],
            "last stable offset free": stable,
            "rescale to flowing": [restart.seconds for restart in self.of(Kind.RESCALE)],
            "silence of a rescale": [restart.silence for restart in self.of(Kind.RESCALE)],
        }
        for kind in (Kind.TAKEOVER, Kind.WORKER, Kind.FREEZE, Kind.EXECUTOR):
            figures[f"silence of a {kind.value}"] = [restart.silence for restart in self.of(kind)]
        return [(name, spread) for name, found in figures.items() if (spread := Spread.of(found)) is not None]


class Site(Protocol):
    """A running job with a steady load, and the ways to restart it."""

    def kill(self) -> Restart:
        """Kills the driver and waits until records flow again."""
        ...

    def rescale(self) -> Restart:
        """Changes the parallelism and waits until records flow again."""
        ...

    def take_over(self) -> Restart:
        """Has a prepared driver take over from the present driver, and waits until records flow from it."""
        ...

    def lose(self, kind: Kind) -> Restart:
        """Ends or freezes a process below the driver, and waits until records flow again."""
        ...

    def judge(self) -> str:
        """Stops the load and compares source and sink; returns the counts as text.

        :raises SystemExit: not every record is there exactly once.
        """
        ...


def _spreads(found: Sequence[Mapping[str, float]], names: Sequence[str]) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = []
    for name in names:
        spread = Spread.of([marks[name] for marks in found if name in marks])
        if spread is not None:
            rows.append((name, spread.count, spread.median, spread.p95, spread.highest))
    return rows
