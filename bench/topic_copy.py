"""Copies a whole topic with the engine; shared by the benches of throughput.

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
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.dataplane.batch import open_consumer, open_producer
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.spec import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import AttemptOutcome
from sparkapp.spark.driver import Driver
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.launch.session import create_session
from sparkapp.spark.launch.settings import session_settings
from tests.support.fakes.memory_store import MemoryStore


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
        """Creates a topic with the partitions of the copy."""
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
            session_settings(self._job("none", "none", DeliveryGuarantee.NONE, batch=1), directory=Path("/nowhere"))
            | {"spark.driver.memory": "2g"}
            | settings
        )

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

        driver = Driver(
            self._job(source, sink, delivery_guarantee, batch=batch),
            DriverEnvironment(
                store=MemoryStore(), write_report=lambda _: None,
                open_session=lambda: spark, close_session=lambda _: None,
                folder=Path(tempfile.mkdtemp(prefix="bench-query-")), stateful_allowed=False,
                credentials=Path("/nowhere"), on_completed=on_completed,
            ),
        )  # fmt: skip
        started = time.monotonic()
        termination = driver.run()
        if termination.outcome is not AttemptOutcome.DRAINED:
            sys.exit(f"{delivery_guarantee}: {termination}")
        self.check(sink, delivery_guarantee.value)
        return Run(started, tuple(ends), tuple(records), tuple(completed))

    def check(self, sink: str, name: str) -> None:
        """Counts the records of a read_committed consumer, so that no figure comes from lost records."""
        config = {"bootstrap.servers": self.bootstrap, "group.id": "bench-check", "isolation.level": "read_committed"}
        view = KafkaClusterView(config, read_committed=True)
        partitions = [TopicPartition(sink, number) for number in range(self.partitions)]
        splits = [KafkaPartitionSplit(partition, 0, end) for partition, end in view.latest(partitions).items()]
        consumer = open_consumer(config)
        found = sum(batch.num_rows for batch in consumer.read(splits, columns=frozenset({"partition"})))
        consumer.close()
        view.close()
        if found != self.records:
            sys.exit(f"{name}: {found:,} records in the sink, not {self.records:,}")
        drop_topic(self.bootstrap, sink)

    def _job(self, source: str, sink: str, delivery_guarantee: DeliveryGuarantee, *, batch: int) -> Job:
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
                sink=Sink(topic=sink, delivery_guarantee=delivery_guarantee, transactional_id_prefix=f"bench.{name}"),
                parallelism=self.parallelism,
                checkpoint_interval_seconds=1,
            ),
        )  # fmt: skip
