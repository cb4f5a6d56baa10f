"""Dead letters that are read apart: of a transform whose tasks write other records than they read.

With an aggregation, a join, a sort or a repartition a task does not have the letters of the rows that it writes. So the
stream leaves out what does not parse, as ``onRecordError: Skip`` does. The write stage reads the offsets of the
checkpoint a second time, and takes what does not parse as letters. They are rows behind those of the result, in the
same tasks, with null in all columns but :data:`COLUMN`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from sparkapp.model.job.spec import Job
from sparkapp.sink.dead_letter import dead_letters
from sparkapp.spark.frames.query_plan import keeps_records
from sparkapp.spark.frames.record_policy import diverts, skipping

COLUMN = "_kafkaspark_letters"
"""Bytes: several letters, as a stream of Arrow; null in a row of the result."""


class Letters(NamedTuple):
    """Letters among the batches of a write task."""

    rows: pa.RecordBatch


# -- the plan ---------------------------------------------------------------------------------------------------------


def planned(job: Job, plan: Callable[[Job], DataFrame]) -> tuple[DataFrame, bool]:
    """The result of the transform, and whether its letters are read apart. Called before the query starts.

    :param plan: gives the result as this job decodes its records. It is called again where the first plan shows that
        tasks do not write what they read. A job with a place for state is taken for one of these at once.
    """
    if not diverts(job.spec):
        return plan(job), False
    if not job.spec.may_keep_state:
        result = plan(job)
        if keeps_records(result):
            return result, False
    return plan(skipping(job)), True


def letter_streams(job: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of :data:`COLUMN` for records that do not parse; runs in an executor's worker (``mapInArrow``)."""
    for batch in batches:
        if batch.num_rows:
            letters = dead_letters(batch, job=job)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, letters.schema) as stream:
                stream.write_batch(letters)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=[COLUMN])


def with_letters(result: DataFrame, letters: DataFrame) -> DataFrame:
    """The result, with the letters of partition i behind the rows of partition i.

    A union of Spark has a task for each partition of either frame, and no more than ``parallelism`` tasks may write.

    :param letters: of :func:`sparkapp.spark.frames.records.letters_of`, in as many partitions as the result.
    """
    session: Any = result.sparkSession
    jvm = session._jvm
    rows = result.withColumn(COLUMN, f.lit(None).cast("binary"))
    rdds = jvm.PythonUtils.toSeq([frame._jdf.queryExecution().toRdd() for frame in (rows, letters)])
    first = rdds.head()
    rdd = jvm.org.apache.spark.rdd.SQLPartitioningAwareUnionRDD(
        session.sparkContext._jsc.sc(), rdds, first.getNumPartitions(), first.elementClassTag()
    )
    # A column that is never null in the result is null in letters.
    schema = rows._jdf.schema().asNullable()
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rdd, schema, False), session)


# -- the write task ---------------------------------------------------------------------------------------------------


def parted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch | Letters]:
    """The rows of the result and the letters of :func:`with_letters`, apart; called in a write task.

    A checkpoint without records has no letters, and no column for them.
    """
    for batch in batches:
        if COLUMN not in batch.schema.names:
            yield batch
            continue
        letters, rows = batch.column(COLUMN), batch.drop_columns([COLUMN])
        if letters.null_count == batch.num_rows:
            yield rows
            continue
        yield rows.filter(pc.is_null(letters))
        for each in letters.drop_null():
            yield from map(Letters, letters_in(each.as_buffer()))


def letters_in(stream: pa.Buffer | bytes) -> Iterator[pa.RecordBatch]:
    """The letters in a value of :data:`COLUMN`."""
    with pa.ipc.open_stream(stream) as batches:
        yield from batches
