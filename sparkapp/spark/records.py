"""The record as users see it, in and out: Spark's own Kafka schema, with key and value in the chosen format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
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

from sparkapp.model.errors import TransformError
from sparkapp.model.job import Format, Job, Sink
from sparkapp.model.sink_routing import Partitioner, TopicFrom
from sparkapp.source.reader_schema import REGISTERED
from sparkapp.spark.end_of_stream import end_at_predicate
from sparkapp.spark.json_format import parse_json
from sparkapp.spark.record_policy import apply_policy, with_raw_columns
from sparkapp.spark.registry_format import parse_registered

SINK_COLUMNS = ("key", "value", "headers", "timestamp")
"""What the sink takes from the transform's result; ``value`` is required, other columns are not written.

``topic`` and ``partition`` are taken only where the sink's options ask for them: on records that pass through they are
the source's.
"""


def decode_records(records: DataFrame, job: Job) -> DataFrame:
    """Applies ``source.format``, ``source.stopping.predicate`` and ``onRecordError``.

    :raises ConfigurationError: a schema, or the predicate, is not one that Spark understands.
    """
    source = job.spec.source
    records = with_raw_columns(records)
    for side, chosen, schema in (
        ("key", source.key_format, source.key_schema),
        ("value", source.value_format, source.value_schema),
    ):
        if chosen is Format.STRING:
            records = records.withColumn(side, f.col(side).cast("string"))
        elif chosen is Format.JSON:
            records = parse_json(records, side, schema)
        elif source.schema_registry is not None and chosen in REGISTERED:
            records = parse_registered(records, side, kind=chosen, registry=source.schema_registry, schema=schema)
    return apply_policy(end_at_predicate(records, job.spec), job)


def encode_records(result: DataFrame, sink: Sink) -> DataFrame:
    """The sink's columns of a transform's result: text and bytes as they are, structures as JSON, the rest as text.

    :raises TransformError: there is no ``value``, ``headers`` has another type than the source's, or a column that
        ``sink.topicFrom`` or ``sink.partitioner`` asks for is missing.
    """
    fields = {field.name: field.dataType for field in result.schema.fields}
    if "value" not in fields:
        msg = f"the transform's result has no column 'value', only: {', '.join(fields) or 'nothing'}"
        raise TransformError(
            msg, remedy="name the column to write 'value', for instance: SELECT key, to_json(struct(*)) AS value"
        )
    columns = [_encoded(name, fields[name]) for name in SINK_COLUMNS if name in fields]
    return result.select(*columns, *_routing_columns(fields, sink))


def _routing_columns(fields: Mapping[str, DataType], sink: Sink) -> Iterator[Column]:
    if sink.topic_from is TopicFrom.COLUMN:
        if not isinstance(fields.get("topic"), StringType):
            msg = "sink.topicFrom is Column, and the transform's result has no column 'topic' of strings"
            raise TransformError(msg, remedy="return the target's name as column topic, or set sink.topicFrom: Spec")
        yield f.col("topic")
    if sink.partitioner is Partitioner.SOURCE_PARTITION:
        if not isinstance(fields.get("partition"), IntegralType):
            msg = "sink.partitioner is SourcePartition, and the transform's result has no integer column 'partition'"
            raise TransformError(
                msg, remedy="keep the source's column partition in the result, or set sink.partitioner: Key"
            )
        yield f.col("partition").cast("int")


def _encoded(name: str, kind: DataType) -> Column:
    column = f.col(name)
    if name == "headers":
        fields = getattr(getattr(kind, "elementType", None), "fields", [])
        if [(field.name, field.dataType) for field in fields] != [("key", StringType()), ("value", BinaryType())]:
            msg = f"column 'headers' must be ARRAY<STRUCT<key: STRING, value: BINARY>>, not {kind.simpleString()}"
            raise TransformError(msg)
        # Never null, which Spark cannot measure at a fair cost (arrow_batches); the sink writes neither.
        return f.coalesce(column, f.array().cast(kind)).alias(name)
    if name == "timestamp":
        return column if isinstance(kind, TimestampType) else column.cast("timestamp").alias(name)
    if isinstance(kind, BinaryType | StringType):
        return column
    if isinstance(kind, StructType | MapType | ArrayType):
        return f.to_json(column).alias(name)
    return column.cast("string").alias(name)
