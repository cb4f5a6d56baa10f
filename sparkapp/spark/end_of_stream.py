"""``source.stopping.predicate``: a partition ends at its first record of which an SQL expression is true.

Spark evaluates the expression as a column; a Python stage over whole batches leaves out what follows an end, and marks
the end itself. The marked rows are observed, for the engine to cut the checkpoint there, and go no further.
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
from pyspark.sql.types import BooleanType

from sparkapp.model.errors import ConfigurationError, TransformError
from sparkapp.model.job import JobSpec
from sparkapp.model.partition import TopicPartition
from sparkapp.native.interface import SOURCE_SCHEMA
from sparkapp.sink.dead_letter import RAW_KEY, RAW_VALUE
from sparkapp.spark.observed import observed
from sparkapp.spark.record_policy import diverts, error_column, fallible_sides

MARK = "_end_of_stream"
"""Boolean column between the expression and the observation; null says nothing."""

_OBSERVATION = "kafkaspark-ends"
_ENDS = "ends"
_FIELD = "spec.source.stopping.predicate"
_join: Any = pc.binary_join_element_wise
"""Its types know nothing of the separator."""


def end_at_predicate(decoded: DataFrame, spec: JobSpec) -> DataFrame:
    """The frame without the records that end a partition and what follows them; the same one without a predicate.

    Before the policy for records that do not parse, so that nothing behind an end can fail the job or become a dead
    letter. A key or value that does not parse is null to the predicate.

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
    kept = [*SOURCE_SCHEMA.names, *map(error_column, sides), *((RAW_KEY, RAW_VALUE) if diverts(spec) else ())]
    marked = decoded.select(*kept, f.when(f.expr(predicate), f.lit(True)).alias(MARK))
    task: Any = partial(end_partitions, to_arrow_schema(marked.schema, timezone="UTC"))
    place = f.when(f.col(MARK).isNotNull(), f.struct("topic", "partition", "offset"))
    watched = marked.mapInArrow(task, marked.schema).observe(_OBSERVATION, f.collect_list(place).alias(_ENDS))
    return watched.filter(f.col(MARK).isNull()).drop(MARK)


def check_predicate(records: DataFrame, predicate: str) -> None:
    """Plans the expression over the record's columns, before anything is read.

    :raises ConfigurationError: it does not parse or analyse, is not boolean, or needs more than one record: an
        aggregate, a window, a generator, a subquery; or is not the same at each evaluation.
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
        remedy="write a boolean expression over a record's key, value, topic, partition, offset, timestamp and headers,"
        " for instance value.kind = 'END' (json) or CAST(value AS STRING) = 'END' (raw), and apply the resource again",
    )


def end_partitions(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in an executor's Python worker (``DataFrame.mapInArrow``), over the records of one subtask.

    Records of a partition come in the order of their offsets. A batch without an end, of partitions without one, passes
    as it is. The last row of all is marked, too, and names no topic: who reads the marks can tell that this task has
    come to the end of its input.

    :param schema: of the batches, for a task without any.
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

    :param ends: offset of the end of each partition that has ended; new ones are added.
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
    """Where partitions have ended in the batch under way: the offset after the end. Asked when its tasks are done.

    :param tasks: how many read something.
    :raises TransformError: the transform did not read all that they read; an end may be in what it left.
    """
    if not spec.source.stopping.predicate or not tasks:
        return {}
    marks = (observed(spark, query_name, _OBSERVATION) or {_ENDS: []})[_ENDS]
    # A task that ran twice has told twice.
    if len({one["partition"] for one in marks if one.get("topic") is None}) < tasks:
        msg = "the transform stopped before the end of its input, so the end of a partition may not have been seen"
        raise TransformError(msg, remedy=f"read every batch to its end in spec.transform, or remove {_FIELD}")
    return {
        TopicPartition(one["topic"], one["partition"]): one["offset"] + 1
        for one in marks
        if one.get("topic") is not None
    }
