"""What Spark alone takes for the checkpoints of ``bench.state_cost``: the same operator, from files to nowhere.

    PYTHONPATH=dev python -m bench.micro.state_floor --keys 10000000

A streaming query of Spark with the settings of a job counts each key. It reads Parquet files with columns and writes
nothing: no Kafka, no parser, no Python workers, no transactions. First all keys are new. Then ``--changed`` of them
come in each micro-batch. Its time is Spark's own, from the plan to the commit of the state: a floor for an engine of
micro-batches.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from bench.engine_job import engine_session
from bench.spread import Spread
from bench.state_cost import counted
from sparkapp.model.job.spark_settings import SHUFFLE_PARTITIONS

_SCHEMA = "value STRUCT<id: BIGINT, note: STRING>"
_NOTE = "x" * 70
"""Of each record, as in ``bench.state_cost``."""


class Progress(StreamingQueryListener):
    """The micro-batches that have read something.

    :ivar batches: Spark's report of each. :ivar is_done: set behind the last.
    """

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.batches: list[dict[str, Any]] = []
        self.is_done = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        batch = json.loads(event.progress.json)
        if batch["numInputRows"]:
            self.batches.append(batch)
        if len(self.batches) == self._expected:
            self.is_done.set()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.is_done.set()


def write_batches(spark: SparkSession, folder: Path, options: argparse.Namespace) -> int:
    """A folder of files for each micro-batch, whose order is that of their times; returns their number."""
    of_all, changed = options.keys // options.loads, round(options.keys * options.changed)
    all_keys = [
        spark.range(number * of_all, (number + 1) * of_all, 1, options.parallelism).select("id")
        for number in range(options.loads)
    ]
    some = [
        spark.range(0, changed, 1, options.parallelism).select(
            (f.rand(number) * options.keys).cast("bigint").alias("id")
        )
        for number in range(options.checkpoints)
    ]
    for number, ids in enumerate([*all_keys, *some]):
        batch = folder / f"{number:04d}"
        ids.select(f.struct("id", f.lit(_NOTE).alias("note")).alias("value")).write.parquet(str(batch))
        for file in batch.iterdir():
            os.utime(file, (number, number))
    return len(all_keys) + len(some)


def run(spark: SparkSession, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Spark's reports of the micro-batches with changes."""
    spark.conf.set(SHUFFLE_PARTITIONS, options.parallelism)
    with tempfile.TemporaryDirectory(prefix="bench-state-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        batches = write_batches(spark, folder / "in", options)
        progress = Progress(batches)
        spark.streams.addListener(progress)
        source = (
            spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", options.parallelism)
            .parquet(f"{folder / 'in'}/*")
        )  # fmt: skip
        query = (
            counted(source).writeStream.format("noop").outputMode("update")
            .option("checkpointLocation", str(folder / "state")).start()
        )  # fmt: skip
        progress.is_done.wait()
        if failed := query.exception():
            raise failed
        query.stop()
    return progress.batches[options.loads :]


def main() -> None:
    """Runs the bench of the options and prints the outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--loads", type=int, default=10, help="micro-batches that take in all keys")
    parser.add_argument("--changed", type=float, default=0.01, help="share of the keys in a micro-batch behind them")
    parser.add_argument("--checkpoints", type=int, default=20, help="micro-batches with changes")
    parser.add_argument("--parallelism", type=int, default=2)
    options = parser.parse_args()
    spark = engine_session(options.parallelism)
    try:
        batches = run(spark, options)
    finally:
        spark.stop()
    seconds = Spread.of([batch["batchDuration"] / 1000 for batch in batches])
    commits = Spread.of([batch["stateOperators"][0]["commitTimeMs"] / 1000 for batch in batches])
    assert seconds is not None
    assert commits is not None
    print(
        f"{options.keys:,} keys, {options.changed:.1%} changed: {seconds.median:.2f} s a micro-batch"
        f" ({seconds.lowest:.2f} to {seconds.highest:.2f}); commit of the state {commits.median:.3f} s, at most"
        f" {commits.highest:.2f} s of all tasks together"
    )


if __name__ == "__main__":
    main()
