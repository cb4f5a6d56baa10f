"""Copies a whole topic with the engine; shared by the benches of throughput.

One broker, one Spark session (``local[P]``), the same records for every run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from pyspark.sql import SparkSession

from bench.broker import drop_topic, make_topic
from bench.engine_job import engine_driver, engine_job, engine_session
from bench.records import expect_committed, write_records
from bench.values import incompressible
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import Engine
from sparkapp.model.report import AttemptOutcome


@dataclass(frozen=True)
class Run:
    """One copy of the topic: the end and the records of each micro-batch.

    :param started: moment of the monotonic clock, like ``ends``.
    :param completed: the engine's checkpoints; empty for other contestants.
    """

    started: float
    ends: tuple[float, ...]
    records: tuple[int, ...]
    completed: tuple[Completed, ...] = ()

    @property
    def whole(self) -> float:
        """Records a second from the query's start to its last commit."""
        return sum(self.records) / (self.ends[-1] - self.started)

    @property
    def warm(self) -> float:
        """Without the first micro-batch, which pays for code generation, workers and connections."""
        return sum(self.records[1:]) / (self.ends[-1] - self.ends[0])


def interleaved(rounds: Iterable[Iterable[tuple[str, Run]]], progress: TextIO | None = None) -> dict[str, list[Run]]:
    """All runs of a bench by contestant, in the order of the rounds.

    :param rounds: the names and runs of each round, which are measured as they are asked for.
    :param progress: gets a line after each run; by default standard output.
    """
    found: dict[str, list[Run]] = {}
    for number, runs in enumerate(rounds, 1):
        for name, run in runs:
            found.setdefault(name, []).append(run)
            line = f"  round {number}  {name:18} whole {run.whole:>9,.0f}/s   warm {run.warm:>9,.0f}/s"
            print(line, file=progress, flush=True)
    return found


@dataclass(frozen=True, kw_only=True)
class TopicCopy:
    """A source topic of records that do not compress, and runs that copy it.

    :param bootstrap: of the broker.
    :param records: in the source topic; ``size`` bytes each.
    :param kafka: how the jobs reach a secured broker.
    :param query: of the jobs; it keeps every record.
    """

    bootstrap: str
    records: int
    size: int
    partitions: int
    parallelism: int
    engine: Engine = Engine.MICRO_BATCH
    kafka: KafkaCluster | None = None
    query: str = ""

    def topic(self) -> str:
        """Creates a topic with the partitions of the copy."""
        return make_topic(self.bootstrap, self.partitions)

    def load(self, topic: str) -> None:
        """Puts the records into the topic, evenly over its partitions."""
        values = incompressible(self.size)
        write_records(self.bootstrap, topic, values, records=self.records, partitions=self.partitions)

    def session(self, **settings: str) -> SparkSession:
        """The session of all runs, with the settings of a job."""
        return engine_session(self.parallelism, **settings)

    def run(self, spark: SparkSession, source: str, delivery_guarantee: DeliveryGuarantee, *, batch: int) -> Run:
        """Copies the source topic once with the engine, and counts the records that readers find.

        :param batch: records of a micro-batch, which is a checkpoint. With a larger backlog there is no pause.
        """
        sink = self.topic()
        completed: list[Completed] = []
        ends: list[float] = []
        records: list[int] = []

        def on_completed(checkpoint: Completed) -> None:
            completed.append(checkpoint)
            ends.append(time.monotonic())
            records.append(sum(split.size for split in checkpoint.document.splits))
            if sum(records) >= self.records:
                driver.drain()

        job = engine_job(
            self.bootstrap, source, sink, delivery_guarantee=delivery_guarantee, parallelism=self.parallelism,
            records_a_checkpoint=batch, engine=self.engine, kafka=self.kafka, query=self.query,
        )  # fmt: skip
        driver = engine_driver(job, spark, on_completed)
        started = time.monotonic()
        termination = driver.run()
        if termination.outcome is not AttemptOutcome.DRAINED:
            sys.exit(f"{delivery_guarantee}: {termination}")
        self.check(sink, delivery_guarantee.value)
        return Run(started, tuple(ends), tuple(records), tuple(completed))

    def check(self, sink: str, name: str) -> None:
        """Counts the records of a read_committed consumer, and deletes the topic."""
        expect_committed(self.bootstrap, sink, self.records, name=name)
        drop_topic(self.bootstrap, sink)
