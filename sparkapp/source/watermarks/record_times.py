"""The latest record time of each partition in a batch."""

from __future__ import annotations

import pyarrow as pa

from sparkapp.model.partition import TopicPartition

TIME_COLUMNS = frozenset({"topic", "partition", "timestamp"})
"""Columns of the source that :func:`latest_times` needs."""


def latest_times(batch: pa.RecordBatch) -> dict[TopicPartition, int]:
    """The latest record time of each partition, in milliseconds since 1970; called for each batch that is read.

    A partition whose records have no time is absent.

    :param batch: with the columns of :data:`TIME_COLUMNS`, in the types of the source.
    """
    columns = {name: batch.column(name) for name in ("topic", "partition")}
    times = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    table = pa.table({**columns, "time": times})
    latest = table.group_by(["topic", "partition"], use_threads=False).aggregate([("time", "max")])
    return {
        TopicPartition(row["topic"], row["partition"]): row["time_max"]
        for row in latest.to_pylist()
        if row["time_max"] is not None
    }
