"""The cost of state: a topic whose keys are all new, then checkpoints in which few of its keys change.

    PYTHONPATH=dev python -m bench.state_cost --keys 1000000
    python -m bench.state_cost --operator transformWithState --keys 100000 --checkpoints 12
    python -m bench.state_cost --keys 1000000 --rescale 3
    python -m bench.state_cost --operator notes --keys 100000 --note-bytes 1024
    python -m bench.state_cost --set spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows=true

Micro-batches with state in RocksDB, on a broker of its own or ``--bootstrap``. Each record is counted by its key, and
each change of a count is written. ``notes`` also keeps a note of each key: a row of state of ``--note-bytes`` and some
more, that hardly compresses. *load*: the rate and the CPU time while all keys are new. *change*: seconds from the
moment that a checkpoint's records are in the topic until they are visible in the sink, with ``--changed`` of all keys.
That contains up to ``--interval`` of waiting. CPU time is that of this program without the broker.

``--rescale`` ends the attempt, and the next divides the state into that number of partitions before its first
checkpoint. *rescale*: seconds from the start of the next attempt to its first records, in one process. A pod adds its
start. With the number that the state has, nothing is divided. ``bench.state_pause`` draws it over sizes of state.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from bench.broker import broker_at, make_topic, wake
from bench.engine_job import engine_driver, engine_job, engine_session
from bench.peers.process_usage import watch
from bench.records import expect_committed, write_records
from bench.spread import Spread
from bench.values import DIFFERENT_VALUES, incompressible
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.sections.transform import OutputMode
from sparkapp.model.job.spec import Job
from sparkapp.model.report import AttemptOutcome
from sparkapp.spark.driver import Driver
from tests.support.fakes.memory_store import MemoryStore

SCHEMA = "id BIGINT, note STRING"
AGGREGATION, NOTES, _OWN = "aggregation", "notes", "transformWithState"
_FUNCTIONS = {
    AGGREGATION: "bench.state_cost:counted", NOTES: "bench.state_cost:counted_with_note",
    _OWN: "bench.state_cost:counted_by_class",
}  # fmt: skip


def counted(source: DataFrame) -> DataFrame:
    """A count of each key, by Spark's aggregation."""
    counts = source.groupBy(f.col("value.id").alias("id")).agg(f.count("*").alias("n"))
    return counts.select(f.to_json(f.struct("id", "n")).alias("value"))


def counted_with_note(source: DataFrame) -> DataFrame:
    """A count of each key, and the largest of its notes, which stays in the state."""
    found = source.groupBy(f.col("value.id").alias("id")).agg(
        f.count("*").alias("n"), f.max("value.note").alias("note")
    )  # fmt: skip
    return found.select(f.to_json(f.struct("id", "n", f.length("note").alias("bytes"))).alias("value"))


def counted_by_class(source: DataFrame) -> DataFrame:
    """The same by a class in Python with a value state."""
    ids = source.select(f.col("value.id").alias("id")).groupBy("id")
    counts = ids.transformWithState(
        statefulProcessor=Counts(), outputStructType="id BIGINT, n BIGINT", outputMode="Update", timeMode="None"
    )
    return counts.select(f.to_json(f.struct("id", "n")).alias("value"))


class Counts(StatefulProcessor):
    """Counts the records of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self._count.get()
        count = (0 if before is None else int(before[0])) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(id=key[0], n=count)

    def close(self) -> None:
        pass


class StateCost:
    """One job: it takes in every key once, and then the changes.

    :param options: of the command line.
    """

    def __init__(self, bootstrap: str, options: argparse.Namespace) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._changed = max(1, round(options.keys * options.changed))
        self._source, self._sink = (make_topic(bootstrap, options.partitions) for _ in range(2))
        self._chance = random.Random(7)
        self._notes = incompressible(options.note_bytes)
        self._ends: list[float] = []
        self._store = MemoryStore()
        self._read = 0
        self._written_at = 0.0
        self.change_seconds: list[float] = []

    def run(self, spark: SparkSession) -> dict[str, Any]:
        """Loads, changes and counts the sink.

        :returns: figures by name.
        """
        options = self._options
        self._write(range(options.keys))
        job = engine_job(
            self._bootstrap, self._source, self._sink, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
            parallelism=options.parallelism, records_a_checkpoint=max(self._changed, options.keys // options.loads),
            interval_millis=round(options.interval * 1000), json_schema=SCHEMA,
            function=_FUNCTIONS[options.operator], output_mode=OutputMode.UPDATE,
        )  # fmt: skip
        figures: dict[str, Any] = {}
        with tempfile.TemporaryDirectory(prefix="bench-state-", ignore_cleanup_errors=True) as folder:
            usages = [watch(os.getsid(0)) for _ in range(2)]
            usage = usages[0].__enter__()

            def on_completed(checkpoint: Completed) -> None:
                nonlocal usage
                size = sum(split.size for split in checkpoint.document.splits)
                self._read += size
                now = time.monotonic()
                if self._read <= options.keys:
                    self._ends.append(now)
                elif size:
                    self.change_seconds.append(now - self._written_at)
                if self._read == options.keys:
                    usages[0].__exit__(None, None, None)
                    figures["loadCpuMicros"] = usage.cpu_seconds / options.keys * 1e6
                    usage = usages[1].__enter__()
                if len(self.change_seconds) == options.checkpoints:
                    driver.drain()
                elif self._read >= options.keys:
                    # Spark's thread is here, and plans the next checkpoint behind it: it has all of these records.
                    self._write(self._chance.sample(range(options.keys), self._changed))

            driver = engine_driver(job, spark, on_completed, state=Path(folder), store=self._store)
            _run(driver)
            usages[1].__exit__(None, None, None)
            figures["stateMebibytes"] = _mebibytes(Path(folder))
            if options.rescale:
                figures["rescaleSeconds"] = self._next_attempt(job, spark, Path(folder))
        changes = (options.checkpoints + bool(options.rescale)) * self._changed
        figures["changeCpuMicros"] = usage.cpu_seconds / changes * 1e6
        figures["loadRate"] = (options.keys - options.keys // options.loads) / (self._ends[-1] - self._ends[0])
        expect_committed(self._bootstrap, self._sink, options.keys + changes, name=options.operator)
        return figures

    def _next_attempt(self, job: Job, spark: SparkSession, folder: Path) -> float:
        """Seconds until its first checkpoint with records is complete."""
        self._write(self._chance.sample(range(self._options.keys), self._changed))
        completed, began = 0.0, time.monotonic()

        def on_completed(checkpoint: Completed) -> None:
            nonlocal completed
            if not completed and any(split.size for split in checkpoint.document.splits):
                completed = time.monotonic()
                driver.drain()

        spec = replace(job.spec, state_claim="on-this-disk", state_partitions=str(self._options.rescale))
        driver = engine_driver(
            replace(job, attempt=2, spec=spec), spark, on_completed, state=folder, store=self._store
        )  # fmt: skip
        _run(driver)
        return completed - began

    def _write(self, ids: Sequence[int]) -> None:
        for start in range(0, len(ids), DIFFERENT_VALUES):
            some = ids[start : start + DIFFERENT_VALUES]
            values = [json.dumps({"id": number, "note": self._note(number)}).encode() for number in some]
            write_records(
                self._bootstrap, self._source, values, records=len(values), partitions=self._options.partitions
            )  # fmt: skip
        self._written_at = time.monotonic()

    def _note(self, number: int) -> str:
        return self._notes[number % DIFFERENT_VALUES].decode()


def _run(driver: Driver) -> None:
    termination = driver.run()
    if termination.outcome is not AttemptOutcome.DRAINED:
        sys.exit(str(termination))


def _mebibytes(folder: Path) -> float:
    """Room that the files have on the disk; a file with several names counts once."""
    files = {(found := each.stat()).st_ino: found.st_size for each in folder.rglob("*") if each.is_file()}
    return sum(files.values()) / 2**20


def main() -> int:
    """Runs the bench of the options and prints the outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--operator", choices=[*_FUNCTIONS], default=AGGREGATION)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--loads", type=int, default=5, help="checkpoints that take in all keys")
    parser.add_argument("--changed", type=float, default=0.01, help="share of the keys in a checkpoint behind it")
    parser.add_argument("--checkpoints", type=int, default=12, help="with changes; Spark makes a snapshot every tenth")
    parser.add_argument("--note-bytes", type=int, default=70, help="bytes of the note of each record")
    parser.add_argument("--interval", type=float, default=0.2, help="seconds")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rescale", type=int, default=0, help="partitions of state of a second attempt; 0 for none")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    options = parser.parse_args()
    with broker_at(options.bootstrap) as bootstrap:
        wake(bootstrap)
        spark = engine_session(options.parallelism, **dict(each.split("=", 1) for each in options.set))
        try:
            cost = StateCost(bootstrap, options)
            figures = cost.run(spark)
        finally:
            spark.stop()
    seconds = Spread.of(cost.change_seconds)
    print(
        f"{options.operator}, {options.keys:,} keys: load {figures['loadRate']:,.0f} records/s, "
        f"{figures['loadCpuMicros']:.1f} µs of CPU a record"
    )
    if seconds is not None:
        print(
            f"{options.changed:.1%} changed: {seconds.median:.2f} s a checkpoint (p95 {seconds.p95:.2f}, at most "
            f"{max(cost.change_seconds):.2f}), {figures['changeCpuMicros']:.1f} µs of CPU a record; "
            f"{figures['stateMebibytes']:,.0f} MiB of state on the volume"
        )
    if options.rescale:
        print(f"rescale to {options.rescale} partitions of state: {figures['rescaleSeconds']:.1f} s without a record")
    return 0


if __name__ == "__main__":
    sys.exit(main())
