"""The shapes with state as functions over DataFrames, for our engine and for Spark's connector."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from bench.peers.workload import LAST_MILLIS, WINDOW_SECONDS


def counted(source: DataFrame) -> DataFrame:
    """:attr:`bench.peers.workload.Shape.COUNT`."""
    window = f"{WINDOW_SECONDS} seconds"
    at = f.timestamp_millis(f.col("value.at")).alias("at")
    events = source.select(f.col("value.id").alias("id"), at).withWatermark("at", window)
    # The last events have moved the watermark: Spark leaves a condition on its column behind it.
    events = events.where(f.col("at") < f.timestamp_millis(f.lit(LAST_MILLIS)))
    counts = events.groupBy(f.window("at", window), "id").agg(f.count("*").alias("n"))
    return counts.select(f.to_json(f.struct("id", f.col("window.start").alias("start"), "n")).alias("value"))


def first_of_each(source: DataFrame) -> DataFrame:
    """:attr:`bench.peers.workload.Shape.DEDUPLICATE`."""
    ids = source.select(f.col("value.id").alias("id")).dropDuplicates(["id"])
    return ids.select(f.to_json(f.struct("id")).alias("value"))
