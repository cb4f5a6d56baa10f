"""How the continuous engine grows with its parallelism and with the number of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.peers.contestants import CONTESTANTS
from bench.peers.results import Run
from bench.peers.rounds import Programs, ThroughputRounds
from bench.peers.workload import GROWTH, PARALLELISMS, STEPS, Step, Workload

_RECORDS = 1_500_000
_BYTES = 100
_CONTESTANT = next(each for each in CONTESTANTS if each.name == "ours-continuous")


@dataclass(frozen=True, kw_only=True)
class GrowthRounds:
    """Every step of :data:`STEPS`, each parallelism with a program of its own.

    :param records: of each source; None for the workload's own number.
    :param logs: directory of the programs' logs.
    """

    bootstrap: str
    records: int | None
    logs: Path

    def run(self, rounds: int) -> Iterator[Run]:
        """Every step once a round; every second round has the opposite order."""
        with ExitStack() as stack:
            programs = {
                parallelism: Programs(parallelism=parallelism, logs=self.logs / f"parallelism-{parallelism}")
                for parallelism in PARALLELISMS
            }
            for each in programs.values():
                stack.callback(each.close_all)
            for number in range(rounds):
                for step in STEPS[:: -1 if number % 2 else 1]:
                    runs = self._round(step, programs[step.parallelism]).run(1)
                    yield from (replace(run, round=number) for run in runs)

    def _round(self, step: Step, programs: Programs) -> ThroughputRounds:
        workload = Workload(
            name=GROWTH, title="", records=_RECORDS, size=_BYTES, partitions=step.partitions
        )  # fmt: skip
        return ThroughputRounds(
            bootstrap=self.bootstrap, programs=programs, workload=workload,
            contestants=[replace(_CONTESTANT, name=step.variant)], records=self.records or workload.records,
            parallelism=step.parallelism,
        )  # fmt: skip
