"""Rounds of all contestants on one broker, interleaved, so that other load and drift affect all alike."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.broker import drop_topic, make_topic
from bench.peers.contestants import PROGRAMS, Contestant
from bench.peers.process_usage import watch
from bench.peers.program import Program, ProgramFailed, Task
from bench.peers.results import CPU, MEMORY, RATE, WHOLE, Run
from bench.peers.workload import Workload
from bench.records import EndOffsets, count_committed, write_records
from sparkapp.model.job.spark_settings import STATE_MEBIBYTES

WARM_SHARE = 0.2
"""The records before it pay for code generation, workers and connections."""
INTERVAL_MILLIS = 1000
_STATE_MEMORY = f"{STATE_MEBIBYTES}m"
"""For the caches and buffers of state in an executor, as our engine has by default."""
_RUN_SECONDS = 900.0
_WATCH_SECONDS = 0.05


class Programs:
    """The running programs. A program starts with its first task, and again after a failure."""

    def __init__(self, *, parallelism: int, logs: Path) -> None:
        self._parallelism = parallelism
        self._logs = logs
        self._running: dict[str, Program] = {}

    def program(self, name: str) -> Program:
        """The running program of a name of :data:`PROGRAMS`.

        :raises ProgramFailed: it cannot be built.
        """
        if name not in self._running:
            self._logs.mkdir(parents=True, exist_ok=True)
            try:
                command = PROGRAMS[name](self._parallelism)
            except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
                raise ProgramFailed(f"{name} cannot be built: {error}") from error
            self._running[name] = Program(name, command, self._logs / f"{name}.log")
        return self._running[name]

    def close(self, name: str) -> None:
        """Ends a program; its next task starts another process."""
        if name in self._running:
            self._running.pop(name).close()

    def close_all(self) -> None:
        """Ends every program."""
        for name in tuple(self._running):
            self.close(name)


@dataclass
class Progress:
    """When a sink's log had the share of its records at which a contestant counts as warm."""

    warm_at: float | None = None
    done: threading.Event = field(default_factory=threading.Event)


@contextmanager
def watched_sink(bootstrap: str, sink: str, expected: int) -> Iterator[Progress]:
    """Looks at the sink's high watermarks from outside, the same way for every contestant."""
    progress = Progress()
    ends = EndOffsets(bootstrap, sink)

    def run() -> None:
        while not progress.done.wait(_WATCH_SECONDS):
            if sum(ends.of(committed=False).values()) >= expected * WARM_SHARE:
                progress.warm_at = time.monotonic()
                return

    watcher = threading.Thread(target=run, daemon=True)
    watcher.start()
    try:
        yield progress
    finally:
        progress.done.set()
        watcher.join()


@dataclass(frozen=True, kw_only=True)
class ThroughputRounds:
    """One workload, as a number of rounds.

    :param records: of the source topic.
    """

    bootstrap: str
    programs: Programs
    workload: Workload
    contestants: Sequence[Contestant]
    records: int
    parallelism: int

    def run(self, rounds: int) -> Iterator[Run]:
        """Every contestant once a round; every second round has the opposite order."""
        source = make_topic(self.bootstrap, self.workload.partitions)
        write_records(
            self.bootstrap, source, self.workload.values(self.records), records=self.records,
            partitions=self.workload.partitions,
        )  # fmt: skip
        for number in range(rounds):
            for contestant in self.contestants[:: -1 if number % 2 else 1]:
                yield self._run(contestant, source, number)
        drop_topic(self.bootstrap, source)

    def _run(self, contestant: Contestant, source: str, number: int) -> Run:
        sink = make_topic(self.bootstrap, self.workload.partitions)
        try:
            figures = self._measure(contestant, source, sink)
        except ProgramFailed as error:
            self.programs.close(contestant.program)
            return Run(workload=self.workload.name, variant=contestant.name, round=number, failure=str(error))
        finally:
            drop_topic(self.bootstrap, sink)
        return Run(workload=self.workload.name, variant=contestant.name, round=number, figures=figures)

    def _measure(self, contestant: Contestant, source: str, sink: str) -> dict[str, float]:
        expected = self.workload.expected(self.records)
        task = Task(
            bootstrap=self.bootstrap, source=source, sink=sink, records=self.records,
            delivery_guarantee=contestant.delivery_guarantee, parallelism=self.parallelism,
            interval_millis=INTERVAL_MILLIS, shape=self.workload.shape,
            options=contestant.options,
        )  # fmt: skip
        program = self.programs.program(contestant.program)
        with ExitStack() as stack:
            if task.shape.keeps_state:
                folder = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="bench-state-", ignore_cleanup_errors=True)
                )
                given = {"expected": str(expected), "state": folder, "state-memory": _STATE_MEMORY}
                task = replace(task, options={**task.options, **given})
            progress = stack.enter_context(watched_sink(self.bootstrap, sink, expected))
            usage = stack.enter_context(watch(program.session))
            started = time.monotonic()
            program.begin(task)
            ended = program.answer(_RUN_SECONDS)
        found = count_committed(self.bootstrap, sink)
        if found != expected:
            raise ProgramFailed(f"{contestant.name}: {found:,} records in the sink, not {expected:,}")
        figures = {
            WHOLE: self.records / (ended - started),
            CPU: usage.cpu_seconds / self.records * 1e6,
            MEMORY: usage.peak_bytes / 2**20,
        }
        if progress.warm_at is not None and progress.warm_at < ended:
            figures[RATE] = self.records * (1 - WARM_SHARE) / (ended - progress.warm_at)
        return figures
