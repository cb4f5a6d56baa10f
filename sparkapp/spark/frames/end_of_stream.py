"""``source.stopping.predicate``: a partition ends at its first record for which an SQL expression is true.

Spark evaluates the expression as a column. A Python stage over whole batches removes the records after an end and marks
the end itself. The marked rows are observed, so that the engine cuts the checkpoint there, and are then removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.errors import ConfigurationError, TransformError
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.dead_letter import RAW_KEY, RAW_VALUE
from sparkapp.spark.frames.query_plan import observed
from sparkapp.spark.frames.record_policy import diverts, error_column, fallible_sides, kept_columns

MARK = "_end_of_stream"
"""Boolean column between the expression and the observation; null for a record that is no end."""

_OBSERVATION = "kafkaspark-ends"
_ENDS = "ends"
_FIELD = "spec.source.stopping.predicate"
_join: Any = pc.binary_join_element_wise
"""Typed as Any: the stubs lack the separator."""


def end_at_predicate(decoded: DataFrame, spec: JobSpec) -> DataFrame:
    """The frame without the records that end a partition and the records after them.

    Applied before the policy for records that do not parse. So no record after an end can fail the job or become a dead
    letter. A key or value that does not parse is null in the predicate. Without a predicate the frame is unchanged.

    :param decoded: a frame of ``record_policy.with_raw_columns`` after its decoders.
    :raises ConfigurationError: the predicate is not an expression that :func:`check_predicate` takes.
    """
    predicate = spec.source.stopping.predicate
    if not predicate:
        return decoded
    sides = fallible_sides(spec)
    for side in sides:
        decoded = decoded.withColumn(side, f.when(f.col(error_column(side)).isNull(), f.col(side)))
    check_predicate(decoded.select(*SOURCE_SCHEMA.names), predicate)
    raw = (RAW_KEY, RAW_VALUE) if diverts(spec) or RAW_KEY in kept_columns(spec) else ()
    kept = [*SOURCE_SCHEMA.names, *map(error_column, sides), *raw]
    marked = decoded.select(*kept, f.when(f.expr(predicate), f.lit(True)).alias(MARK))
    # Each task adds a row of nulls (_last_row), also in columns that are never null before.
    schema = StructType([StructField(field.name, field.dataType) for field in marked.schema])
    task: Any = partial(end_partitions, to_arrow_schema(schema, timezone="UTC"))
    place = f.when(f.col(MARK).isNotNull(), f.struct("topic", "partition", "offset"))
    watched = marked.mapInArrow(task, schema).observe(_OBSERVATION, f.collect_list(place).alias(_ENDS))
    return watched.filter(f.col(MARK).isNull()).drop(MARK)


def check_predicate(records: DataFrame, predicate: str) -> None:
    """Plans the expression over the record's columns, before anything is read.

    :raises ConfigurationError: the expression does not parse or analyse, is not boolean or not deterministic, or needs
        more than a record. Aggregates, windows, generators and subqueries need more.
    """
    try:
        chosen = records.select(f.expr(predicate).alias(MARK))
        kind = chosen.schema[MARK].dataType
    except (ParseException, AnalysisException) as error:
        raise _refusal(f"{predicate!r} does not plan: {str(error).strip().splitlines()[0]}") from error
    if not isinstance(kind, BooleanType):
        raise _refusal(f"{predicate!r} is of type {kind.simpleString()}, not boolean")
    plan = chosen._jdf.queryExecution().analyzed()
    below = records._jdf.queryExecution().analyzed()
    if (
        plan.getClass().getSimpleName() != "Project"
        or not plan.child().sameResult(below)
        or not plan.subqueries().isEmpty()
        or not plan.expressions().head().deterministic()
    ):
        raise _refusal(f"{predicate!r} does not depend on one record alone")


def _refusal(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{_FIELD}: {why}",
        remedy=f"set {_FIELD} to a boolean expression over key, value, topic, partition, offset, timestamp and headers."
        " For instance value.kind = 'END' (json) or CAST(value AS STRING) = 'END' (raw)",
    )


def end_partitions(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in an executor's Python worker (``DataFrame.mapInArrow``), over the records of one subtask.

    Records of a partition come in the order of their offsets. A batch without an end, of partitions without an end,
    passes unchanged. The last row of all is marked, too, and names no topic. It shows :func:`stops_found` that this
    task has read its input to the end.

    :param schema: of the batches, for a task without batches.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    ends: dict[str, int] = {}
    for batch in batches:
        schema = batch.schema
        yield without_what_follows(batch, ends)
    yield _last_row(schema, 0 if context is None else context.partitionId())


def without_what_follows(batch: pa.RecordBatch, ends: dict[str, int]) -> pa.RecordBatch:
    """The batch up to the ends of its partitions; each end keeps its mark.

    :param ends: offset of the end of each partition that has ended; new ends are added.
    """
    marks = batch.column(MARK)
    if marks.null_count == batch.num_rows and not ends:
        return batch
    keys = _join(batch.column("topic"), batch.column("partition").cast(pa.string()), "-")
    if marks.null_count < batch.num_rows:
        marked = pa.table({"key": keys, "offset": batch.column("offset")}).filter(pc.is_valid(marks))
        for row in marked.group_by("key").aggregate([("offset", "min")]).to_pylist():
            ends.setdefault(row["key"], row["offset_min"])
    ended = pc.index_in(keys, value_set=pa.array(ends, pa.string()))
    if ended.null_count == batch.num_rows:
        return batch
    stop = pa.array(ends.values(), pa.int64()).take(ended)
    return batch.filter(pc.or_kleene(pc.is_null(ended), pc.less_equal(batch.column("offset"), stop)))


def _last_row(schema: pa.Schema, task: int) -> pa.RecordBatch:
    known: dict[str, list[Any]] = {MARK: [True], "partition": [task]}
    return pa.RecordBatch.from_arrays(
        [pa.array(known.get(field.name, [None]), field.type) for field in schema], schema=schema
    )


def stops_found(spec: JobSpec, spark: SparkSession, query_name: str, tasks: int) -> dict[TopicPartition, int]:
    """The offset after the end of each partition that ended in the batch under way; asked when its tasks are done.

    Called by the checkpoint runner.

    :param query_name: of the running query.
    :param tasks: how many read something.
    :raises TransformError: the transform did not read all of its input, so an end may be missed.
    """
    if not spec.source.stopping.predicate or not tasks:
        return {}
    marks = (observed(spark, query_name, _OBSERVATION) or {_ENDS: []})[_ENDS]
    # A task that ran twice has two marks.
    if len({mark["partition"] for mark in marks if mark.get("topic") is None}) < tasks:
        msg = "the transform stopped before the end of its input: the end of a partition may be missed"
        raise TransformError(msg, remedy=f"read every batch to its end in spec.transform, or remove {_FIELD}")
    return {
        TopicPartition(mark["topic"], mark["partition"]): mark["offset"] + 1
        for mark in marks
        if mark.get("topic") is not None
    }
