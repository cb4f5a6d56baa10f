"""How many bytes an Arrow batch from the JVM to a Python worker holds.

With a limit, Spark measures the whole batch after every row: 0.1 to 0.3 µs a row, and for a list column of nothing but
nulls (headers, mostly) as much as there are rows, 14 µs at 16,384 rows. So batches are limited where it costs little
beside the record: in the write stage, whose headers are never null, while records are large or of unknown size; and in
the other Python stages of a stream that does not use the headers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from sparkapp.native.statistics import FETCHED_BYTES, FETCHED_RECORDS

BATCH_BYTES = 16 << 20
"""As batches from Kafka have it (:meth:`sparkapp.native.interface.BatchConsumer.read`); one row may come on top."""
SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = str((1 << 31) - 1)
"""Spark measures nothing then; the default of an attempt, which ``spec.sparkConf`` overrides."""


class RecordSizes:
    """The mean size of the records that the last checkpoint's readers received; used by the engine, in one thread."""

    def __init__(self) -> None:
        self._records = 0
        self._bytes = 0
        self._mean: float | None = None

    def note(self, totals: Mapping[str, int]) -> None:
        """
        :param totals: of all workers' Kafka clients, after a checkpoint (:mod:`sparkapp.native.statistics`).
        """
        records, size = totals.get(FETCHED_RECORDS, 0), totals.get(FETCHED_BYTES, 0)
        if records > self._records:
            self._mean = (size - self._bytes) / (records - self._records)
        self._records, self._bytes = records, size

    def fit(self, rows: int) -> bool:
        """Whether a batch of so many records of the mean size is within the limit; unknown is no."""
        return self._mean is not None and self._mean * rows <= BATCH_BYTES


def limit_stream(spark: SparkSession, columns: Collection[str]) -> None:
    """Limits every Python stage of the stream, unless it uses the headers. Called before the query starts.

    :param columns: of the source, those that the stream uses.
    """
    if "headers" not in columns and spark.conf.get(SETTING) == UNLIMITED:
        spark.conf.set(SETTING, str(BATCH_BYTES))


@contextmanager
def limited(spark: SparkSession, sizes: RecordSizes) -> Iterator[None]:
    """Limits the Python stages that are planned meanwhile. A value of ``spec.sparkConf`` stays.

    :param spark: the micro-batch's session.
    :param sizes: small records are not measured.
    """
    if spark.conf.get(SETTING) != UNLIMITED or sizes.fit(int(spark.conf.get(ROWS_SETTING) or 0)):
        yield
        return
    spark.conf.set(SETTING, str(BATCH_BYTES))
    try:
        yield
    finally:
        spark.conf.set(SETTING, UNLIMITED)
