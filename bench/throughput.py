"""Kafka to Kafka, records/s: ours in the three semantics beside Spark's own Kafka connector, on one topic in one run.

One broker, one Spark session (``local[P]``), the same records for everybody. Each contestant copies the whole topic
once a round, rounds are interleaved, so that a noisy neighbour hits all alike: read the ratios, not the figures.

*whole* is all records over the time from the query's start to its last commit. *warm* leaves the first micro-batch
out, which pays for code generation, workers and connections.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from localcluster.kafka import Broker
from sparkapp.checkpoint.coordinator import Completed
from sparkapp.checkpoint.store import MemoryStore
from sparkapp.model.job import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.positions import Startup, StartupMode
from sparkapp.model.report import Outcome
from sparkapp.model.semantic import Semantic
from sparkapp.native.batch import implementation, open_consumer, open_producer
from sparkapp.spark.driver import Driver, Surroundings
from sparkapp.spark.session import create_session, session_settings

CONNECTOR = {  # the newest of Spark's connector that the registries hold; it runs on PySpark 4.3
    "org.apache.spark:spark-sql-kafka-0-10_2.13": "4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "org.apache.kafka:kafka-clients": "3.9.1",
    "org.apache.commons:commons-pool2": "2.12.1",
}


@dataclass(frozen=True)
class Run:
    """One contestant's copy of the topic: when each micro-batch was final, and how many records it had."""

    started: float
    ends: tuple[float, ...]
    records: tuple[int, ...]

    @property
    def whole(self) -> float:
        return sum(self.records) / (self.ends[-1] - self.started)

    @property
    def warm(self) -> float:
        return sum(self.records[1:]) / (self.ends[-1] - self.ends[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes a record")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--batch", type=int, default=600_000, help="records a micro-batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="contestants by name: NONE AT_LEAST_ONCE EXACTLY_ONCE native")
    options = parser.parse_args()
    jars = connector_jars()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Broker.ephemeral(Path(folder), overrides={"log.retention.ms": "-1"}) as broker,
    ):
        return Bench(options, broker.bootstrap, jars).run()


class Bench:
    def __init__(self, options: argparse.Namespace, bootstrap: str, jars: list[Path]) -> None:
        self.options = options
        self.bootstrap = bootstrap
        self.jars = jars
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def run(self) -> int:
        o = self.options
        print(
            f"{o.records:,} records of {o.size} bytes, {o.partitions} partitions, local[{o.parallelism}], "
            f"{o.batch:,} a micro-batch, {o.rounds} rounds; batch path: {implementation()}"
        )
        source = self.topic("source")
        self.load(source)
        spark = create_session(
            session_settings(self.job(source, "none", Semantic.NONE), directory=Path("/nowhere"))
            | {"spark.jars": ",".join(map(str, self.jars)), "spark.driver.memory": "2g"}
        )
        contestants: dict[str, Callable[[], Run]] = {
            semantic.value: (lambda semantic=semantic: self.ours(spark, source, semantic))  # type: ignore[misc]
            for semantic in Semantic
        }
        contestants["native"] = lambda: self.native(spark, source)
        if o.only:
            contestants = {name: contestants[name] for name in o.only}
        results: dict[str, list[Run]] = {name: [] for name in contestants}
        for round_number in range(o.rounds):
            for name, contestant in contestants.items():
                run = contestant()
                results[name].append(run)
                print(
                    f"  round {round_number + 1}  {name:14}  whole {run.whole:>9,.0f}/s   warm {run.warm:>9,.0f}/s",
                    flush=True,
                )
        spark.stop()
        self.table(results)
        return 0

    def table(self, results: dict[str, list[Run]]) -> None:
        def median(name: str, what: str) -> float:
            return statistics.median(getattr(run, what) for run in results[name])

        base = median("native", "warm") if "native" in results else None
        print(f"\n{'contestant':16}{'guarantee':16}{'whole k/s':>10}{'warm k/s':>10}{'warm / native':>15}")
        for name in results:
            guarantee = "AT_LEAST_ONCE" if name == "native" else name
            label = "Spark connector" if name == "native" else "ours"
            ratio = f"{median(name, 'warm') / base:.2f}" if base else "-"
            whole, warm = median(name, "whole") / 1000, median(name, "warm") / 1000
            print(f"{label:16}{guarantee:16}{whole:>10,.0f}{warm:>10,.0f}{ratio:>15}")

    def topic(self, kind: str) -> str:
        name = f"bench-{kind}-{uuid.uuid4().hex[:8]}"
        futures = self.admin.create_topics([NewTopic(name, self.options.partitions, 1)])
        futures[name].result(30)
        return name

    def load(self, topic: str) -> None:
        o = self.options
        chunk = 50_000
        values = pa.array(
            [os.urandom(o.size // 2).hex().encode()[: o.size].ljust(o.size, b"x") for _ in range(chunk)], pa.binary()
        )
        producer = open_producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": "20", "batch.num.messages": "50000"}
        )
        for start in range(0, o.records, chunk):
            count = min(chunk, o.records - start)
            partition = pa.array([(start + index) % o.partitions for index in range(count)], pa.int32())
            producer.produce(
                pa.RecordBatch.from_arrays([values.slice(0, count), partition], ["value", "partition"]), topic=topic
            )
        producer.flush(120)
        producer.close()

    def job(self, source: str, sink: str, semantic: Semantic) -> Job:
        o = self.options
        name = uuid.uuid4().hex[:8]
        return Job(
            namespace="bench", name=name, uid=name, generation=1, attempt=1,
            spec=JobSpec(
                kafka=KafkaCluster(bootstrap_servers=self.bootstrap),
                source=Source(
                    topics=(source,),
                    group_id=name,
                    startup=Startup(mode=StartupMode.EARLIEST),
                    max_offsets_per_checkpoint=o.batch,
                ),
                transform=Transform(),
                sink=Sink(topic=sink, semantic=semantic, transactional_id_prefix=f"bench.{name}"),
                parallelism=o.parallelism,
                checkpoint_interval_seconds=1,
            ),
        )  # fmt: skip

    def ours(self, spark: SparkSession, source: str, semantic: Semantic) -> Run:
        sink = self.topic("sink")
        job = self.job(source, sink, semantic)
        ends: list[float] = []
        records: list[int] = []

        def completed(one: Completed) -> None:
            ends.append(time.monotonic())
            records.append(sum(split.size for split in one.document.splits))
            if sum(records) >= self.options.records:
                driver.drain()

        driver = Driver(
            job,
            Surroundings(
                store=MemoryStore(), write_report=lambda _: None,
                open_session=lambda: spark, close_session=lambda _: None,
                folder=Path(tempfile.mkdtemp(prefix="bench-query-")), stateful_allowed=False,
                credentials=Path("/nowhere"), on_completed=completed,
            ),
        )  # fmt: skip
        started = time.monotonic()
        termination = driver.run()
        if termination.outcome is not Outcome.DRAINED:
            sys.exit(f"{semantic}: {termination}")
        self.check(sink, semantic.value)
        return Run(started, tuple(ends), tuple(records))

    def native(self, spark: SparkSession, source: str) -> Run:
        sink = self.topic("sink")
        frame = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.options.batch)
            .load()
            .select("key", "value")
        )
        started = time.monotonic()
        query: Any = (
            frame.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", sink)
            .option("checkpointLocation", Path(tempfile.mkdtemp(prefix="bench-query-")).as_uri())
            .start()
        )
        seen: dict[int, tuple[float, int]] = {}
        while sum(count for _, count in seen.values()) < self.options.records:
            time.sleep(0.01)
            if query.exception() is not None:
                sys.exit(f"native: {query.exception()}")
            progress = query.lastProgress
            if progress is not None and progress["numInputRows"] and progress["batchId"] not in seen:
                seen[progress["batchId"]] = (time.monotonic(), progress["numInputRows"])
        query.stop()
        self.check(sink, "native")
        return Run(started, tuple(end for end, _ in seen.values()), tuple(count for _, count in seen.values()))

    def check(self, sink: str, name: str) -> None:
        """Counts what a read_committed consumer finds, so that no figure comes from records that are not there."""
        from sparkapp.model.partition import TopicPartition
        from sparkapp.model.split import KafkaPartitionSplit
        from sparkapp.source.cluster import KafkaClusterView

        config = {"bootstrap.servers": self.bootstrap, "group.id": "bench-check", "isolation.level": "read_committed"}
        view = KafkaClusterView(config, read_committed=True)
        partitions = [TopicPartition(sink, number) for number in range(self.options.partitions)]
        splits = [KafkaPartitionSplit(one, 0, end) for one, end in view.latest(partitions).items()]
        consumer = open_consumer(config)
        found = sum(batch.num_rows for batch in consumer.read(splits, columns=frozenset({"partition"})))
        consumer.close()
        view.close()
        if found != self.options.records:
            sys.exit(f"{name}: {found:,} records in the sink, not {self.options.records:,}")
        self.admin.delete_topics([sink])[sink].result(30)


def connector_jars() -> list[Path]:
    """Spark's Kafka connector by Maven, cached."""
    folder = Path(os.environ.get("KAFKASPARK_CACHE", Path.home() / ".cache" / "kafkaspark")) / "spark-connector"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for coordinates, version in CONNECTOR.items():
            subprocess.run(
                ["mvn", "-q", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
                 f"-Dartifact={coordinates}:{version}", f"-DoutputDirectory={folder}"],
                check=True,
            )  # fmt: skip
        (folder / ".complete").touch()
    return sorted(folder.glob("*.jar"))


if __name__ == "__main__":
    sys.exit(main())
