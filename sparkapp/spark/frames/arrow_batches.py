"""Limits the bytes of an Arrow batch from the JVM to a Python worker.

With a limit, Spark measures the whole batch after every row: 0.1 to 0.3 µs a row. A list column of only nulls (headers,
mostly) costs time in proportion to the rows: 14 µs a row at 16,384 rows. So a limit is set where it costs little:

- in the write stage, whose headers are never null, while records are large or of unknown size;
- in the other Python stages of a stream that does not use the headers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from sparkapp.dataplane.statistics import FETCHED_BYTES, FETCHED_RECORDS

BATCH_BYTES = 16 << 20
"""The limit of a batch, plus one row. Batches from Kafka have a lower limit (``sparkapp.dataplane.settings``)."""
SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = str((1 << 31) - 1)
"""With this value Spark measures nothing. The default of an attempt, which ``spec.sparkConf`` overrides."""


class RecordSizes:
    """The mean size of the records that the last checkpoint's readers received; used by the engine, in one thread."""

    def __init__(self) -> None:
        self._records = 0
        self._bytes = 0
        self._mean: float | None = None

    def note(self, totals: Mapping[str, int]) -> None:
        """Called after each checkpoint.

        :param totals: of all workers' Kafka clients (:mod:`sparkapp.dataplane.statistics`).
        """
        records, size = totals.get(FETCHED_RECORDS, 0), totals.get(FETCHED_BYTES, 0)
        if records > self._records:
            self._mean = (size - self._bytes) / (records - self._records)
        self._records, self._bytes = records, size

    def fit(self, rows: int) -> bool:
        """Whether a batch of this many records of the mean size is within the limit; False if the size is unknown."""
        return self._mean is not None and self._mean * rows <= BATCH_BYTES


def limit_stream(spark: SparkSession, columns: Collection[str]) -> None:
    """Limits every Python stage of the stream, unless it uses the headers. Called before the query starts.

    :param columns: the source's columns that the stream uses.
    """
    if "headers" not in columns and spark.conf.get(SETTING) == UNLIMITED:
        spark.conf.set(SETTING, str(BATCH_BYTES))


@contextmanager
def limited(spark: SparkSession, sizes: RecordSizes) -> Iterator[None]:
    """Limits the Python stages that are planned within the block. A value of ``spec.sparkConf`` stays.

    Used by the write stage.

    :param spark: the micro-batch's session.
    :param sizes: of the records; small records need no limit.
    """
    if spark.conf.get(SETTING) != UNLIMITED or sizes.fit(int(spark.conf.get(ROWS_SETTING) or 0)):
        yield
        return
    spark.conf.set(SETTING, str(BATCH_BYTES))
    try:
        yield
    finally:
        spark.conf.set(SETTING, UNLIMITED)
