"""``spec.onRecordError`` over a frame whose decoders have marked what they could not read.

A decoder leaves, beside the decoded column of its side (``key`` or ``value``), the column :func:`error_column` with
null or an error text. Fail raises where the transform uses the side. Skip is a filter and a count inside the JVM, and
keeps column pruning. DeadLetter takes all columns through a Python stage, which moves the bad rows aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from sparkapp.model.errors import ConfigurationError, RecordError
from sparkapp.model.job import Format, Job, JobSpec
from sparkapp.model.record_errors import RecordErrorPolicy
from sparkapp.native.interface import SOURCE_SCHEMA
from sparkapp.sink.dead_letter import ERROR, RAW_KEY, RAW_VALUE, STAGE, dead_letters
from sparkapp.spark.hand_over import HandOver
from sparkapp.spark.observed import observed

_FALLIBLE = frozenset({Format.JSON, Format.AVRO, Format.PROTOBUF})
_OBSERVATION = "kafkaspark"
_SKIPPED = "skipped"


def error_column(side: str) -> str:
    """Where the decoder of a side says what is wrong with the row; null where nothing is."""
    return f"_error_{side}"


def fallible_sides(spec: JobSpec) -> tuple[str, ...]:
    """The sides whose format can refuse a record; bytes and text take anything."""
    chosen = {"value": spec.source.value_format, "key": spec.source.key_format}
    return tuple(side for side, one in chosen.items() if one in _FALLIBLE)


def diverts(spec: JobSpec) -> bool:
    """Whether the frame has a stage that moves rows aside, and each write task has to ask for its dead letters."""
    return spec.record_errors.policy is RecordErrorPolicy.DEAD_LETTER and bool(fallible_sides(spec))


def life_of(job: Job) -> str:
    """Names the attempt's files."""
    return f"{job.uid}-{job.attempt}"


def with_raw_columns(records: DataFrame) -> DataFrame:
    """The source's columns, and its key and value once more, for :func:`apply_policy`; unused ones cost nothing."""
    return records.withColumns({RAW_KEY: f.col("key"), RAW_VALUE: f.col("value")})


def apply_policy(decoded: DataFrame, job: Job) -> DataFrame:
    """The source's columns, decoded, without what did not parse.

    :param decoded: a frame of :func:`with_raw_columns` after its decoders.
    """
    names, sides = SOURCE_SCHEMA.names, fallible_sides(job.spec)
    if not sides:
        return decoded.select(*names)
    errors = [f.col(error_column(side)) for side in sides]
    error = f.coalesce(*errors) if len(errors) > 1 else errors[0]
    policy = job.spec.record_errors.policy
    if policy is RecordErrorPolicy.FAIL:
        # Filters are not pushed below an observation: without it Spark parses a record again for each condition on it.
        decoded = decoded.observe(_OBSERVATION, f.count(f.lit(1)).alias("records"))
        return decoded.withColumns({side: _or_raised(side) for side in sides}).select(*names)
    if policy is RecordErrorPolicy.SKIP:
        counted = decoded.observe(_OBSERVATION, f.count(error).alias(_SKIPPED))
        return counted.filter(error.isNull()).select(*names)
    stage = f.coalesce(*(f.when(f.col(error_column(side)).isNotNull(), f.lit(side)) for side in sides))
    marked = decoded.select(*names, RAW_KEY, RAW_VALUE, stage.alias(STAGE), error.alias(ERROR))
    schema = StructType([decoded.schema[name] for name in names])
    task: Any = partial(divert, f"{job.namespace}.{job.name}", life_of(job))
    return marked.mapInArrow(task, schema)


def divert(job: str, life: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in an executor's Python worker (``DataFrame.mapInArrow``): good rows go on, bad ones become dead letters."""
    names = SOURCE_SCHEMA.names
    with hand_over_of_task(life).writing() as letters:
        for batch in batches:
            error = batch.column(ERROR)
            if error.null_count == batch.num_rows:
                yield batch.select(names)
                continue
            letters.write_batch(dead_letters(batch.filter(pc.is_valid(error)), job=job))
            yield batch.filter(pc.is_null(error)).select(names)


def hand_over_of_task(life: str) -> HandOver:
    """The hand-over between the stages of the Spark task that this worker runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        msg = "dead letters need Spark's task context"
        raise RuntimeError(msg)
    return HandOver(life=life, partition=context.partitionId(), task_attempt=context.taskAttemptId())


def require_aligned(spec: JobSpec) -> None:
    """Called for a batch whose tasks do not write what they read, before any of it is written.

    :raises ConfigurationError: dead letters would have no task to go with.
    """
    if not diverts(spec):
        return
    msg = (
        "spec.onRecordError: DeadLetter needs a transform whose tasks write what they read, and this one has an "
        "aggregation, a join, a sort or a repartition"
    )
    raise ConfigurationError(
        msg, remedy="set spec.onRecordError: Skip, or move what shuffles into a second job that reads the sink topic"
    )


def skipped_records(spec: JobSpec, spark: SparkSession, query_name: str) -> int:
    """Records that Skip has left out of the batch under way, asked when its tasks are done."""
    if spec.record_errors.policy is not RecordErrorPolicy.SKIP or not fallible_sides(spec):
        return 0
    counts = observed(spark, query_name, _OBSERVATION)
    return 0 if counts is None else int(counts[_SKIPPED])


def _or_raised(side: str) -> Column:
    error = f.col(error_column(side))
    # In the form in which a worker's traceback names an error of ours, so that it is found in Spark's text; a line of
    # its own, for Spark appends to it.
    name = f"{RecordError.__module__}.{RecordError.__qualname__}: "
    texts: Sequence[Column] = (
        f.lit(f"{name}topic "), f.col("topic"), f.lit(", partition "), f.col("partition").cast("string"),
        f.lit(", offset "), f.col("offset").cast("string"), f.lit(": "), error, f.lit("\n"),
    )  # fmt: skip
    return f.when(error.isNull(), f.col(side)).otherwise(f.raise_error(f.concat(*texts)))
