"""Kafka to Kafka, records/s: the engine's three guarantees against Spark's own Kafka connector, in one run.

One broker, one Spark session (``local[P]``) and the same records for all contestants. Each contestant copies the whole
topic once a round. Rounds are interleaved, so that other load affects all alike: read the ratios, not the figures.

*whole* is all records over the time from the query's start to its last commit. *warm* leaves out the first micro-batch,
which pays for code generation, workers and connections.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.broker import broker_at
from bench.topic_copy import Run, TopicCopy, interleaved
from sparkapp.dataplane.batch import implementation
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.spec import Engine

CONNECTOR = {  # the newest of Spark's connector that the registries hold; it runs on PySpark 4.3
    "org.apache.spark:spark-sql-kafka-0-10_2.13": "4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "org.apache.kafka:kafka-clients": "3.9.1",
    "org.apache.commons:commons-pool2": "2.12.1",
}


def main() -> int:
    """Runs the bench of the options and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--batch", type=int, default=600_000, help="records of a micro-batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="of these: None AtLeastOnce ExactlyOnce Continuous connector")
    options = parser.parse_args()
    jars = connector_jars()
    with broker_at(None) as bootstrap:
        return Bench(options, bootstrap, jars).run()


class Bench:
    """All rounds of all contestants."""

    def __init__(self, options: argparse.Namespace, bootstrap: str, jars: list[Path]) -> None:
        self.options = options
        self.jars = jars
        self.copy = TopicCopy(
            bootstrap=bootstrap, records=options.records, size=options.size, partitions=options.partitions,
            parallelism=options.parallelism,
        )  # fmt: skip

    def run(self) -> int:
        """Copies the topic once a round with each contestant; returns the exit status."""
        o = self.options
        print(
            f"{o.records:,} records of {o.size} bytes, {o.partitions} partitions, local[{o.parallelism}], "
            f"{o.batch:,} a micro-batch, {o.rounds} rounds; batch path: {implementation()}"
        )
        source = self.copy.topic()
        self.copy.load(source)
        spark = self.copy.session(**{"spark.jars": ",".join(map(str, self.jars))})
        contestants: dict[str, Callable[[], Run]] = {
            guarantee.value: (lambda guarantee=guarantee: self.copy.run(spark, source, guarantee, batch=o.batch))  # type: ignore[misc]
            for guarantee in DeliveryGuarantee
        }
        contestants["Continuous"] = lambda: replace(self.copy, engine=Engine.CONTINUOUS).run(
            spark, source, DeliveryGuarantee.EXACTLY_ONCE, batch=o.batch
        )
        contestants["connector"] = lambda: self.connector(spark, source)
        if o.only:
            contestants = {name: contestants[name] for name in o.only}
        rounds = (((name, run()) for name, run in contestants.items()) for _ in range(o.rounds))
        results = interleaved(rounds)
        spark.stop()
        self.table(results)
        return 0

    def table(self, results: dict[str, list[Run]]) -> None:
        """Prints the medians and their ratio to Spark's connector."""

        def median(name: str, what: str) -> float:
            return statistics.median(run.whole if what == "whole" else run.warm for run in results[name])

        base = median("connector", "warm") if "connector" in results else None
        print(f"\n{'contestant':18}{'guarantee':16}{'whole k/s':>10}{'warm k/s':>10}{'warm / connector':>15}")
        for name in results:
            guarantee = {"connector": "AtLeastOnce", "Continuous": "ExactlyOnce"}.get(name, name)
            label = {"connector": "Spark connector", "Continuous": "ours, continuous"}.get(name, "ours")
            ratio = f"{median(name, 'warm') / base:.2f}" if base else "-"
            whole, warm = median(name, "whole") / 1000, median(name, "warm") / 1000
            print(f"{label:18}{guarantee:16}{whole:>10,.0f}{warm:>10,.0f}{ratio:>15}")

    def connector(self, spark: SparkSession, source: str) -> Run:
        """Copies the topic with Spark's own connector."""
        sink = self.copy.topic()
        frame = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.copy.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.options.batch)
            .load()
            .select("key", "value")
        )
        started = time.monotonic()
        query: Any = (
            frame.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self.copy.bootstrap)
            .option("topic", sink)
            .option("checkpointLocation", Path(tempfile.mkdtemp(prefix="bench-query-")).as_uri())
            .start()
        )
        seen: dict[int, tuple[float, int]] = {}
        while sum(count for _, count in seen.values()) < self.options.records:
            time.sleep(0.01)
            if query.exception() is not None:
                sys.exit(f"connector: {query.exception()}")
            progress = query.lastProgress
            if progress is not None and progress["numInputRows"] and progress["batchId"] not in seen:
                seen[progress["batchId"]] = (time.monotonic(), progress["numInputRows"])
        query.stop()
        self.copy.check(sink, "connector")
        return Run(started, tuple(end for end, _ in seen.values()), tuple(count for _, count in seen.values()))


def connector_jars() -> list[Path]:
    """The jars of Spark's Kafka connector; Maven downloads them once."""
    folder = Path(os.environ.get("KAFKASPARK_CACHE", Path.home() / ".cache" / "kafkaspark")) / "spark-connector"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for coordinates, version in CONNECTOR.items():
            subprocess.run(
                ["mvn", "--batch-mode", "--quiet", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
                 f"-Dartifact={coordinates}:{version}", f"-DoutputDirectory={folder}"],
                check=True, stdout=sys.stderr,  # standard output belongs to the program that calls
            )  # fmt: skip
        (folder / ".complete").touch()
    return sorted(folder.glob("*.jar"))


if __name__ == "__main__":
    sys.exit(main())
