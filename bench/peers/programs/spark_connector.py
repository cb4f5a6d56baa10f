"""Structured Streaming with Spark's own Kafka connector as a contestant; its sink is at least once."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.engine_job import engine_session
from bench.peers.programs.keyed import counted, first_of_each
from bench.peers.programs.task_lines import TaskLine, serve
from bench.peers.workload import EVENT_COLUMNS, JSON_COLUMNS, LARGE, Shape
from bench.throughput import connector_jars

_REAL_TIME_BATCH = "5 seconds"
"""The shortest batch that Spark's real-time trigger allows; records do not wait for its end."""


def main() -> None:
    """Serves tasks with one session."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallelism", type=int, required=True, help="of the session; real time needs all partitions")
    settings = {
        "spark.jars": ",".join(map(str, connector_jars())),
        # The real-time trigger asks for it.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    }
    spark = engine_session(parser.parse_args().parallelism, **settings)
    serve(lambda task: run(spark, task))


def run(spark: SparkSession, task: TaskLine) -> float:
    """A query, which resumes by the folder of its checkpoints where the task names it.

    :returns: the moment at which its last micro-batch was seen to be complete.
    """
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task["bootstrap"])
        .option("subscribe", task["source"])
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
    )
    if task.records:
        reader = reader.option("maxOffsetsPerTrigger", max(1, task.records // 5))
    writer = (
        _transformed(reader.load(), task)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", task["bootstrap"])
        .option("topic", task["sink"])
    )
    if task.get("trigger") == "real-time":
        writer = writer.outputMode("update").trigger(realTime=_REAL_TIME_BATCH)
    with ExitStack() as stack:
        folder = task.get("checkpoints") or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="bench-query-", ignore_cleanup_errors=True)
        )
        query: Any = writer.option("checkpointLocation", Path(folder).as_uri()).start()
        if Shape(task["shape"]).keeps_state:
            query.processAllAvailable()  # with the batch without records that writes the last windows
        elif task.records:
            _await_records(query, task.records)
        else:
            task.await_stop()
        ended = time.monotonic()
        if query.exception() is not None:
            sys.exit(str(query.exception()))
        query.stop()
    return ended


def _transformed(records: DataFrame, task: TaskLine) -> DataFrame:
    shape = Shape(task["shape"])
    if shape is Shape.COPY:
        return records.select("key", "value")
    if shape.keeps_state:
        event = f.from_json(f.col("value").cast("string"), EVENT_COLUMNS)
        work = counted if shape is Shape.COUNT else first_of_each
        return work(records.select(event.alias("value")))
    order = f.from_json(f.col("value").cast("string"), JSON_COLUMNS)
    return (
        records.select(order.alias("o"))
        .where(f.col("o.amount") > LARGE)
        .select(f.to_json(f.struct("o.id", "o.customer", "o.amount")).alias("value"))
    )


def _await_records(query: Any, records: int) -> None:
    while sum(progress["numInputRows"] for progress in query.recentProgress) < records:
        time.sleep(0.02)
        if query.exception() is not None:
            sys.exit(str(query.exception()))


if __name__ == "__main__":
    main()
