"""Rounds of every contestant at each of its paces, for latency, interleaved on one broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.broker import drop_topic, make_topic
from bench.peers.contestants import LATENCY_PARTITIONS, Contestant, Pace, variant
from bench.peers.process_usage import watch
from bench.peers.program import Program, ProgramFailed, Task
from bench.peers.results import CORES, MEMORY, Run
from bench.peers.rounds import INTERVAL_MILLIS, Programs
from bench.peers.workload import LATENCY

_STOP_SECONDS = 120.0
_MORE_SECONDS = 400.0
"""For the start of a job, and for the last records."""


@dataclass(frozen=True, kw_only=True)
class LatencyRounds:
    """Latency at a steady rate.

    :param rate: records a second.
    :param seconds: that count, of each run.
    """

    bootstrap: str
    programs: Programs
    contestants: Sequence[Contestant]
    parallelism: int
    rate: int
    seconds: float

    def run(self, rounds: int) -> Iterator[Run]:
        """Every contestant at every pace once a round; every second round has the opposite order."""
        every = [(contestant, pace) for contestant in self.contestants for pace in contestant.paces]
        for number in range(rounds):
            for contestant, pace in every[:: -1 if number % 2 else 1]:
                name = variant(contestant, pace)
                try:
                    figures = self._measure(contestant, pace)
                except ProgramFailed as error:
                    self.programs.close(pace.program or contestant.program)
                    yield Run(workload=LATENCY, variant=name, round=number, failure=str(error))
                else:
                    yield Run(workload=LATENCY, variant=name, round=number, figures=figures)

    def _measure(self, contestant: Contestant, pace: Pace) -> dict[str, float]:
        source, sink = (make_topic(self.bootstrap, LATENCY_PARTITIONS) for _ in range(2))
        task = Task(
            bootstrap=self.bootstrap, source=source, sink=sink, records=0,
            delivery_guarantee=contestant.delivery_guarantee, parallelism=self.parallelism,
            interval_millis=pace.interval_millis or INTERVAL_MILLIS, options=pace.options,
        )  # fmt: skip
        program = self.programs.program(pace.program or contestant.program)
        try:
            with watch(program.session) as usage:
                started = time.monotonic()
                program.begin(task)
                figures = self._probe(program, source, sink, variant(contestant, pace))
                seconds = time.monotonic() - started
            program.stop()
            program.answer(_STOP_SECONDS)
        finally:
            drop_topic(self.bootstrap, source)
            drop_topic(self.bootstrap, sink)
        return {**figures, CORES: usage.cpu_seconds / seconds, MEMORY: usage.peak_bytes / 2**20}

    def _probe(self, program: Program, source: str, sink: str, name: str) -> dict[str, float]:
        command = [
            sys.executable, "-m", "bench.peers.programs.latency_probe", "--bootstrap", self.bootstrap,
            "--source", source, "--sink", sink, "--partitions", str(LATENCY_PARTITIONS), "--rate", str(self.rate),
            "--seconds", str(self.seconds),
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
            deadline = time.monotonic() + self.seconds + _MORE_SECONDS
            while probe.poll() is None and program.runs and time.monotonic() < deadline:
                time.sleep(0.1)
            if probe.poll() is None:
                probe.kill()
                program.answer(0)  # raises its failure, which says more than the probe would
            output, errors = probe.communicate()
        if probe.returncode != 0:
            raise ProgramFailed(f"{name}: {output.strip()} {errors.strip()[-300:]}")
        figures: dict[str, float] = json.loads(output)
        return figures
