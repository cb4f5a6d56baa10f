"""Restarts of a job in processes of this machine, which shows the engine's part of the seconds."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.broker import broker_at, make_topic
from bench.outage import Downstream, StableOffsets, SteadyRecords
from bench.restart_marks import ASKED, BEGUN, ENDED, FLOWING, OFFSETS_FREE, free_again, longest_silence, marks_of_log
from bench.restarts import Kind, Restart
from clusterjob.kafka.reading import read_committed
from clusterjob.oracle import compare, same
from clusterjob.watch import TimedOut
from sparkapp.model.job.spec import JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.job.startup import Startup, StartupMode
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import START_SECONDS, LocalJob

PARTITIONS = 4
_OPEN_SECONDS = 30.0


class LocalRestarts:
    """See :class:`bench.restarts.Site`."""

    def __init__(
        self, bootstrap: str, job: LocalJob, loader: SteadyRecords, reader: Downstream, offsets: StableOffsets
    ) -> None:
        self._bootstrap = bootstrap
        self._job = job
        self._loader = loader
        self._reader = reader
        self._offsets = offsets

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
                transform=Transform(),
                sink=Sink(topic=sink, transactional_id_prefix=name),
                parallelism=options.parallelism,
                checkpoint_interval_seconds=options.interval,
            )
            job = LocalJob(folder=folder, spec=spec, uid=name, host=EngineHost(folder))
            stack.callback(job.kill)
            reader = stack.enter_context(Downstream(bootstrap, sink))
            offsets = stack.enter_context(StableOffsets(bootstrap, sink))
            loader = stack.enter_context(SteadyRecords(bootstrap, source, options.rate))
            job.start(alone=True)
            job.await_records_in(1)
            try:
                reader.await_beyond({}, seconds=_OPEN_SECONDS)
                yield cls(bootstrap, job, loader, reader, offsets)
            except TimedOut as error:
                raise TimedOut(f"{error.what}\n{job.log()}") from error

    def kill(self) -> Restart:
        """SIGKILL to the driver and its JVM while a transaction is open, and the next attempt at once."""
        job = self._job
        # After two more checkpoints the attempt runs steadily, without a backlog of the last restart.
        before = job.document()
        at_work = before.counters.records_in if before is not None else 0
        for _ in range(2):
            at_work = job.await_records_in(at_work + 1).counters.records_in
        self._offsets.forget()
        if not self._offsets.await_open(seconds=_OPEN_SECONDS):
            print("no transaction was open for long enough to be seen", file=sys.stderr)
        asked = time.time()
        job.kill()
        ended = time.time()
        job.start(alone=True)
        # The first of these may be the claim. The log line of a checkpoint comes a moment after its document.
        for _ in range(3):
            at_work = job.await_records_in(at_work + 1).counters.records_in
        marks = {**marks_of_log(job.log(10_000).splitlines()), ASKED: asked, ENDED: ended}
        # By then the killed attempt had ended and the new attempt had written nothing.
        flowing = self._reader.await_beyond(self._offsets.ends_before(marks[BEGUN]), seconds=START_SECONDS)
        marks[FLOWING] = flowing
        free = free_again(self._offsets.samples(asked), begun=marks[BEGUN])
        if free is not None:
            marks[OFFSETS_FREE] = free
        return Restart(
            kind=Kind.KILL,
            attempt=job.attempt,
            marks=marks,
            silence=longest_silence(self._reader.arrivals(asked - 10), since=asked, until=flowing),
            stable_seconds=None if free is None else free - asked,
        )

    def rescale(self) -> Restart:
        """Not possible without an operator."""
        sys.exit("a rescale needs the operator: leave out --local")

    def judge(self) -> str:
        """See :class:`bench.restarts.Site`."""
        source, sink = self._job.spec.source.topics[0], self._job.spec.sink.topic
        self._job.await_records_in(self._loader.end())
        status = self._job.drain()
        verdict = compare(read_committed(self._bootstrap, source), read_committed(self._bootstrap, sink), expect=same)
        if status or not verdict.exactly_once:
            sys.exit(f"not exactly once: status {status}, {verdict.explain()}\n{self._job.log()}")
        return verdict.explain()
