"""Restarts of a job in processes of this machine, which shows the engine's part of the seconds."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.broker import broker_at, make_topic
from bench.restart.marks import (
    ACTIVATED,
    ASKED,
    BEGUN,
    ENDED,
    FLOWING,
    OFFSETS_FREE,
    free_again,
    longest_silence,
    marks_of_log,
    moment_of,
)
from bench.restart.outage import Downstream, StableOffsets, SteadyRecords
from bench.restart.restarts import Kind, Restart
from bench.restart.unstamped import unstamped
from clusterjob.kafka.reading import read_committed
from clusterjob.oracle import compare, longest_pause, same
from clusterjob.watch import TimedOut
from sparkapp.clients.deadline import Deadline
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import START_SECONDS, LocalJob, settings_of_a_cluster

PARTITIONS = 4
_OPEN_SECONDS = 30.0
_SAMPLED_SECONDS = 0.2
"""For some samples of the partitions' ends."""


class LocalRestarts:
    """See :class:`bench.restart.restarts.Site`."""

    def __init__(
        self,
        bootstrap: str,
        job: LocalJob,
        *,
        loader: SteadyRecords,
        reader: Downstream,
        offsets: StableOffsets,
        parallelisms: tuple[int, int],
    ) -> None:
        self._bootstrap = bootstrap
        self._job = job
        self._loader = loader
        self.reader = reader
        self._offsets = offsets
        self._parallelisms = parallelisms

    @classmethod
    @contextmanager
    def begin(cls, options: argparse.Namespace) -> Iterator[LocalRestarts]:
        """Starts a broker, a job and a steady load."""
        with ExitStack() as stack:
            bootstrap = stack.enter_context(broker_at(options.bootstrap))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            source, sink = make_topic(bootstrap, PARTITIONS), make_topic(bootstrap, PARTITIONS)
            name = f"bench-{uuid.uuid4().hex[:8]}"
            spec = JobSpec(
                kafka=KafkaCluster(bootstrap_servers=bootstrap),
                source=Source(topics=(source,), group_id=name, startup=Startup(mode=StartupMode.EARLIEST)),
                transform=Transform(arrow=ArrowTransform(function=f"{unstamped.__module__}:unstamped"))
                if "takeover" in (options.only or ())
                else Transform(),
                sink=Sink(topic=sink, transactional_id_prefix=name),
                parallelism=options.parallelism,
                checkpoint_interval_seconds=options.interval,
                engine=options.engine,
            )
            if set(options.only or ()) & {"worker", "freeze", "executor"}:
                # Local Spark would not start a task again.
                places = max(options.parallelism, options.rescaled)
                master = f"local-cluster[{places},1,1024]" if "executor" in options.only else f"local[{places},4]"
                os.environ |= settings_of_a_cluster(folder, master=master)
            job = LocalJob(folder=folder, spec=spec, uid=name, host=EngineHost(folder))
            reader = stack.enter_context(Downstream(bootstrap, sink))
            offsets = stack.enter_context(StableOffsets(bootstrap, sink))
            loader = stack.enter_context(SteadyRecords(bootstrap, source, options.rate))
            site = cls(
                bootstrap, job, loader=loader, reader=reader, offsets=offsets,
                parallelisms=(options.parallelism, options.rescaled),
            )  # fmt: skip
            stack.callback(site.close)
            job.start(alone=True)
            job.await_records_in(1)
            try:
                reader.await_beyond({}, seconds=_OPEN_SECONDS)
                yield site
            except TimedOut as error:
                raise TimedOut(f"{error.what}\n{job.log()}") from error

    def close(self) -> None:
        """Ends the processes of the present attempt."""
        self._job.kill()

    def kill(self) -> Restart:
        """SIGKILL to the driver and its JVM while a transaction is open, and the next attempt at once."""

        def act() -> float:
            if not self._offsets.await_open(seconds=_OPEN_SECONDS):
                print("no transaction was open for long enough to be seen", file=sys.stderr)
            asked = time.time()
            self._job.kill()
            return asked

        return self._restart(Kind.KILL, act)

    def rescale(self) -> Restart:
        """An orderly stop, and the next attempt with the other parallelism."""
        present, wanted = self._parallelisms
        self._parallelisms = wanted, present

        def act() -> float:
            asked = time.time()
            if self._job.drain():
                sys.exit(f"the job did not stop in order\n{self._job.log()}")
            return asked

        return self._restart(Kind.RESCALE, act, parallelism=wanted)

    def take_over(self) -> Restart:
        """See :class:`bench.restart.restarts.Site`. The next driver's JVM and tasks run before the signal."""
        before = self._job
        prepared = before.folder / "prepared"
        prepared.unlink(missing_ok=True)
        successor = replace(before, process=None)
        successor.start(fault=f"standby:{prepared}")
        try:
            self._await(prepared, successor)
            at_work = self._run_steadily()
        except BaseException:
            successor.kill()
            raise
        self._job, asked = successor, time.time()
        if before.drain():
            sys.exit(f"the job did not stop in order\n{before.log()}")
        for _ in range(3):
            at_work = successor.await_records_in(at_work + 1).counters.records_in
        marks = {**marks_of_log(before.log(10_000).splitlines()), **marks_of_log(successor.log(10_000).splitlines())}
        marks[FLOWING] = self.reader.await_beyond(self._offsets.ends_before(marks[ACTIVATED]), seconds=START_SECONDS)
        written = read_committed(self._bootstrap, successor.spec.sink.topic)
        return Restart(
            kind=Kind.TAKEOVER, attempt=successor.attempt, marks={**marks, ASKED: asked},
            silence=longest_pause(written, since=asked, until=marks[FLOWING]),
        )  # fmt: skip

    @staticmethod
    def _await(prepared: Path, successor: LocalJob) -> None:
        deadline = Deadline.after(START_SECONDS)
        while not prepared.exists():
            if deadline.expired or successor.process is None or successor.process.poll() is not None:
                raise TimedOut(f"the next driver is not prepared\n{successor.log()}")
            time.sleep(0.05)

    def lose(self, kind: Kind) -> Restart:
        """SIGKILL or SIGSTOP to a process below the driver; Spark starts its task again."""
        job = self._job
        self._run_steadily()
        pid = min(job.executors() if kind is Kind.EXECUTOR else job.workers())
        asked = time.time()
        os.kill(pid, signal.SIGSTOP if kind is Kind.FREEZE else signal.SIGKILL)
        flowing = self.reader.await_beyond(self._offsets.ends_before(asked), seconds=START_SECONDS)
        self._run_steadily()
        lines = [line for line in job.log(100_000).splitlines() if (moment_of(line) or 0) > asked]
        marks = {**marks_of_log(lines), ASKED: asked, FLOWING: flowing}
        return Restart(
            kind=kind,
            attempt=job.attempt,
            marks={name: at for name, at in marks.items() if at <= flowing},
            silence=longest_silence(self.reader.arrivals(asked - 10), since=asked, until=flowing),
        )

    def _run_steadily(self) -> int:
        """After two more checkpoints the attempt runs without a backlog of the last restart."""
        before = self._job.document()
        at_work = before.counters.records_in if before is not None else 0
        for _ in range(2):
            at_work = self._job.await_records_in(at_work + 1).counters.records_in
        self._offsets.forget()
        time.sleep(_SAMPLED_SECONDS)
        return at_work

    def _restart(self, kind: Kind, act: Callable[[], float], *, parallelism: int | None = None) -> Restart:
        """
        :param act: ends the attempt and returns when it began to, in seconds since 1970.
        """
        job = self._job
        at_work = self._run_steadily()
        asked = act()
        ended = time.time()
        job.start(alone=True, parallelism=parallelism)
        # The first of these may be the claim. The log line of a checkpoint comes a moment after its document.
        for _ in range(3):
            at_work = job.await_records_in(at_work + 1).counters.records_in
        marks = {**marks_of_log(job.log(10_000).splitlines()), ASKED: asked, ENDED: ended}
        # By then the killed attempt had ended and the new attempt had written nothing.
        flowing = self.reader.await_beyond(self._offsets.ends_before(marks[BEGUN]), seconds=START_SECONDS)
        marks[FLOWING] = flowing
        free = free_again(self._offsets.samples(asked), begun=marks[BEGUN])
        if free is not None:
            marks[OFFSETS_FREE] = free
        return Restart(
            kind=kind,
            attempt=job.attempt,
            marks=marks,
            silence=longest_silence(self.reader.arrivals(asked - 10), since=asked, until=flowing),
            stable_seconds=None if free is None else free - asked,
        )

    def judge(self) -> str:
        """See :class:`bench.restart.restarts.Site`."""
        source, sink = self._job.spec.source.topics[0], self._job.spec.sink.topic
        self._job.await_records_in(self._loader.end())
        status = self._job.drain()
        verdict = compare(read_committed(self._bootstrap, source), read_committed(self._bootstrap, sink), expect=same)
        if status or not verdict.exactly_once:
            sys.exit(f"not exactly once: status {status}, {verdict.explain()}\n{self._job.log()}")
        return verdict.explain()
