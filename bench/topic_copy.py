"""Kafka to Kafka with our engine, one whole topic a run: what benches of throughput have in common.

One broker, one Spark session (``local[P]``), the same records for every run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.broker import drop_topic, make_topic
from sparkapp.checkpoint.coordinator import Completed
from sparkapp.model.job import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.partition import TopicPartition
from sparkapp.model.positions import Startup, StartupMode
from sparkapp.model.report import Outcome
from sparkapp.model.semantic import Semantic
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.native.batch import open_consumer, open_producer
from sparkapp.source.cluster import KafkaClusterView
from sparkapp.spark.driver import Driver, Surroundings
from sparkapp.spark.session import create_session
from sparkapp.spark.settings import session_settings
from tests.support.memory_store import MemoryStore


@dataclass(frozen=True)
class Run:
    """One copy of the topic: when each micro-batch was final, and how many records it had.

    :param completed: the checkpoints of ours; empty for others.
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


@dataclass(frozen=True, kw_only=True)
class TopicCopy:
    """A source topic of records that do not compress, and runs that copy it.

    :param bootstrap: of the broker.
    :param records: in the source topic; ``size`` bytes each.
    """

    bootstrap: str
    records: int
    size: int
    partitions: int
    parallelism: int

    def topic(self) -> str:
        return make_topic(self.bootstrap, self.partitions)

    def load(self, topic: str) -> None:
        """Puts the records into the topic, evenly over its partitions."""
        chunk = 50_000
        values = pa.array(
            [os.urandom(self.size // 2).hex().encode()[: self.size].ljust(self.size, b"x") for _ in range(chunk)],
            pa.binary(),
        )
        producer = open_producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": "20", "batch.num.messages": "50000"}
        )
        for start in range(0, self.records, chunk):
            count = min(chunk, self.records - start)
            partition = pa.array([(start + index) % self.partitions for index in range(count)], pa.int32())
            producer.produce(
                pa.RecordBatch.from_arrays([values.slice(0, count), partition], ["value", "partition"]), topic=topic
            )
        producer.flush(120)
        producer.close()

    def session(self, **settings: str) -> SparkSession:
        """The session of all runs, with the settings of a job."""
        return create_session(
            session_settings(self._job("none", "none", Semantic.NONE, batch=1), directory=Path("/nowhere"))
            | {"spark.driver.memory": "2g"}
            | settings
        )

    def run(self, spark: SparkSession, source: str, semantic: Semantic, *, batch: int) -> Run:
        """Copies the source topic once with our engine, and counts what readers find.

        :param batch: records a micro-batch, which is a checkpoint; with a backlog beyond it there is no pause between.
        """
        sink = self.topic()
        completed: list[Completed] = []
        ends: list[float] = []
        records: list[int] = []

        def on_completed(one: Completed) -> None:
            completed.append(one)
            ends.append(time.monotonic())
            records.append(sum(split.size for split in one.document.splits))
            if sum(records) >= self.records:
                driver.drain()

        driver = Driver(
            self._job(source, sink, semantic, batch=batch),
            Surroundings(
                store=MemoryStore(), write_report=lambda _: None,
                open_session=lambda: spark, close_session=lambda _: None,
                folder=Path(tempfile.mkdtemp(prefix="bench-query-")), stateful_allowed=False,
                credentials=Path("/nowhere"), on_completed=on_completed,
            ),
        )  # fmt: skip
        started = time.monotonic()
        termination = driver.run()
        if termination.outcome is not Outcome.DRAINED:
            sys.exit(f"{semantic}: {termination}")
        self.check(sink, semantic.value)
        return Run(started, tuple(ends), tuple(records), tuple(completed))

    def check(self, sink: str, name: str) -> None:
        """Counts what a read_committed consumer finds, so that no figure comes from records that are not there."""
        config = {"bootstrap.servers": self.bootstrap, "group.id": "bench-check", "isolation.level": "read_committed"}
        view = KafkaClusterView(config, read_committed=True)
        partitions = [TopicPartition(sink, number) for number in range(self.partitions)]
        splits = [KafkaPartitionSplit(one, 0, end) for one, end in view.latest(partitions).items()]
        consumer = open_consumer(config)
        found = sum(batch.num_rows for batch in consumer.read(splits, columns=frozenset({"partition"})))
        consumer.close()
        view.close()
        if found != self.records:
            sys.exit(f"{name}: {found:,} records in the sink, not {self.records:,}")
        drop_topic(self.bootstrap, sink)

    def _job(self, source: str, sink: str, semantic: Semantic, *, batch: int) -> Job:
        name = uuid.uuid4().hex[:8]
        return Job(
            namespace="bench", name=name, uid=name, generation=1, attempt=1,
            spec=JobSpec(
                kafka=KafkaCluster(bootstrap_servers=self.bootstrap),
                source=Source(
                    topics=(source,),
                    group_id=name,
                    startup=Startup(mode=StartupMode.EARLIEST),
                    max_offsets_per_checkpoint=batch,
                ),
                transform=Transform(),
                sink=Sink(topic=sink, semantic=semantic, transactional_id_prefix=f"bench.{name}"),
                parallelism=self.parallelism,
                checkpoint_interval_seconds=1,
            ),
        )  # fmt: skip
