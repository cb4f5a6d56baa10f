"""The record that the transform reads and returns: Spark's Kafka schema, with key and value in the job's format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from sparkapp.formats.encoders.record_encoder import RecordEncoder, encodes_result, routing_columns
from sparkapp.model.errors import TransformError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.spark.frames.batch_transform import SINK_COLUMNS
from sparkapp.spark.frames.end_of_stream import end_at_predicate
from sparkapp.spark.frames.failed.letters_apart import COLUMN, letter_streams
from sparkapp.spark.frames.formats.json_format import parse_json
from sparkapp.spark.frames.formats.registry_format import parse_registered
from sparkapp.spark.frames.record_policy import (
    apply_policy,
    counted_errors,
    counts_records,
    error_of,
    framed_side,
    with_raw_columns,
    with_stages,
)

Publish = Callable[[], None]


def decode_records(records: DataFrame, job: Job, publish: Publish) -> DataFrame:
    """Applies ``source.format``, ``source.stopping.predicate`` and ``onRecordError``; called before the query starts.

    :param records: the columns of :data:`sparkapp.spark.tasks.data_source.SOURCE_DDL`.
    :param publish: called in workers: tells the totals of the process.
    :raises ConfigurationError: Spark does not understand a schema or the predicate.
    """
    return apply_policy(judged_records(records, job, publish), job)


def letters_of(records: DataFrame, job: Job, columns: StructType) -> DataFrame:
    """The letters of the records, as rows for :func:`.letters_apart.with_letters`. The frame counts its records.

    :param records: as of :func:`decode_records`.
    :param columns: of the result.
    """
    # Never null: Spark measures nulls slowly (arrow_batches).
    records = records.withColumn("headers", f.coalesce("headers", f.array().cast(records.schema["headers"].dataType)))
    counted = counted_errors(judged_records(records, job, None), job.spec)
    bad = with_stages(counted.filter(error_of(job.spec).isNotNull()), job.spec).drop("key", "value")
    task: Any = partial(letter_streams, f"{job.namespace}.{job.name}")
    nulls = [f.lit(None).cast(field.dataType).alias(field.name) for field in columns.fields]
    return bad.mapInArrow(task, f"{COLUMN} BINARY").select(*nulls, COLUMN)


def judged_records(records: DataFrame, job: Job, publish: Publish | None) -> DataFrame:
    """The records up to the ends of their partitions, decoded and raw, with the errors of those that do not parse.

    :param records: and the errors, as of :func:`decode_records`.
    :param publish: None where records are not counted by their schema.
    """
    records = with_raw_columns(records)
    for side, chosen, schema in job.spec.source.sides:
        records = DECODERS[chosen](records, side, schema, job, publish)
    return end_at_predicate(records, job.spec)


def _decode_raw(records: DataFrame, _side: str, _schema: str, _job: Job, _publish: Publish | None) -> DataFrame:
    return records


def _decode_string(records: DataFrame, side: str, _schema: str, _job: Job, _publish: Publish | None) -> DataFrame:
    return records.withColumn(side, f.col(side).cast("string"))


def _decode_json(records: DataFrame, side: str, schema: str, _job: Job, _publish: Publish | None) -> DataFrame:
    return parse_json(records, side, schema)


def _decode_registered(records: DataFrame, side: str, schema: str, job: Job, publish: Publish | None) -> DataFrame:
    source = job.spec.source
    kind = source.key_format if side == "key" else source.value_format
    assert source.schema_registry is not None  # a rule of the job (check_registry_access)
    counted = counts_records(job.spec) and side == framed_side(job.spec)
    return parse_registered(
        records, side, kind=kind, registry=source.schema_registry, schema=schema, publish=publish if counted else None
    )


DECODERS: Mapping[Format, Callable[[DataFrame, str, str, Job, Publish | None], DataFrame]] = {
    Format.RAW: _decode_raw,
    Format.STRING: _decode_string,
    Format.JSON: _decode_json,
    Format.AVRO: _decode_registered,
    Format.PROTOBUF: _decode_registered,
}
"""The decoder of every format: takes the frame, the side, its schema, the job, and what tells totals.

It replaces the side's column, and adds :func:`error_column` exactly if the format is fallible.
"""


def encode_records(result: DataFrame, spec: JobSpec) -> DataFrame:
    """The sink's columns of a transform's result: text and bytes unchanged, structures as JSON, others as text.

    With ``sink.format`` it is the result's own columns, which the write task encodes.

    :raises TransformError: there is no ``value``, ``headers`` has another type than the source's, or a column that
        ``sink.topicFrom`` or ``sink.partitioner`` asks for is missing.
    :raises SchemaMismatch: a column does not fit the schema of the sink.
    """
    sink = spec.sink
    fields = {field.name: field.dataType for field in result.schema.fields}
    if encodes_result(spec):
        return _checked_columns(result, fields, sink)
    if "value" not in fields:
        msg = f"the transform's result has no column 'value': it has {', '.join(fields) or 'nothing'}"
        raise TransformError(
            msg, remedy="return a column 'value', for instance: SELECT key, to_json(struct(*)) AS value"
        )
    columns = [_encoded(name, fields[name]) for name in SINK_COLUMNS if name in fields]
    return result.select(*columns, *_routing_columns(fields, sink))


def _checked_columns(result: DataFrame, fields: Mapping[str, DataType], sink: Sink) -> DataFrame:
    """The columns that the write task encodes, after a check of their types."""
    routed = {name: column for name, column in zip(routing_columns(sink), _routing_columns(fields, sink), strict=True)}
    encoder = RecordEncoder(sink)
    encoder.check(to_arrow_schema(result.schema, timezone="UTC"))
    columns = []
    for name in encoder.columns:
        kind = fields[name]
        if name in routed:
            columns.append(routed[name])
        elif name == "timestamp":
            columns.append(_encoded(name, kind))
        elif name == "headers" and isinstance(kind, ArrayType):
            columns.append(f.coalesce(name, f.array().cast(kind)).alias(name))
        else:
            columns.append(f.col(f"`{name.replace('`', '``')}`"))
    return result.select(*columns)


def _routing_columns(fields: Mapping[str, DataType], sink: Sink) -> Iterator[Column]:
    if sink.topic_from is TopicFrom.COLUMN:
        if not isinstance(fields.get("topic"), StringType):
            msg = "sink.topicFrom is Column: the transform's result has no column 'topic' of strings"
            raise TransformError(
                msg, remedy="return the topic's name as column topic, or set spec.sink.topicFrom: Spec"
            )
        yield f.col("topic")
    if sink.partitioner is Partitioner.SOURCE_PARTITION:
        if not isinstance(fields.get("partition"), IntegralType):
            msg = "sink.partitioner is SourcePartition: the transform's result has no integer column 'partition'"
            raise TransformError(msg, remedy="return the source's column partition, or set spec.sink.partitioner: Key")
        yield f.col("partition").cast("int")


def _encoded(name: str, kind: DataType) -> Column:
    column = f.col(name)
    if name == "headers":
        fields = getattr(getattr(kind, "elementType", None), "fields", [])
        if [(field.name, field.dataType) for field in fields] != [("key", StringType()), ("value", BinaryType())]:
            msg = f"column 'headers' must be ARRAY<STRUCT<key: STRING, value: BINARY>>, not {kind.simpleString()}"
            raise TransformError(msg)
        # Never null: Spark measures nulls slowly (arrow_batches). The sink writes neither nulls nor empty lists.
        return f.coalesce(column, f.array().cast(kind)).alias(name)
    if name == "timestamp":
        return column if isinstance(kind, TimestampType) else column.cast("timestamp").alias(name)
    if isinstance(kind, BinaryType | StringType):
        return column
    if isinstance(kind, StructType | MapType | ArrayType):
        return f.to_json(column).alias(name)
    return column.cast("string").alias(name)
