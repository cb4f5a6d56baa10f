"""Whether the SQL of a job is narrow, with the columns of its source and for its sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sparkapp.model.encoding.json_columns import JsonType, columns_of
from sparkapp.model.encoding.json_columns import Kind as Type
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.narrow_sql.parser import becomes_text, name_of, parse_narrow
from sparkapp.model.job.rules.narrow_sql.plan import (
    STRING,
    AsJson,
    AsText,
    Field,
    NarrowQuery,
    Output,
    Plain,
    SqlType,
    Struct,
)
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import JobSpec

_INT = JsonType(Type.INT)
_FIXED: Mapping[str, SqlType] = {
    "topic": STRING, "partition": _INT, "offset": JsonType(Type.BIGINT), "timestamp": Plain.TIMESTAMP,
    "timestampType": _INT, "headers": Plain.HEADERS,
}  # fmt: skip


def narrow_query(spec: JobSpec) -> NarrowQuery:
    """The meaning of ``transform.sql`` without a plan of Spark, with outputs that the sink takes.

    Called by the rules of the engines, and by subtasks of the continuous engine.

    :raises InvalidArgument: with what the query or the job has that needs Spark.
    """
    if spec.record_errors.transform_policy is not OnRecordError.FAIL:
        raise InvalidArgument("with onTransformError")
    parsed = parse_narrow(spec.transform.sql, _columns_of(spec.source))
    outputs, routing = dict(parsed.outputs), _routing_of(spec.sink)
    for name, kind in (routing | {"headers": Plain.HEADERS, "timestamp": Plain.TIMESTAMP}).items():
        output = outputs.get(name)
        if output is None:
            if name in routing:
                raise InvalidArgument(f"without a column {name}")
        elif _type_of(output) != kind:
            raise InvalidArgument(f"with {name} as {name_of(_type_of(output))}")
    if spec.sink.format is not None:
        return parsed
    if "value" not in outputs:
        raise InvalidArgument("without a column value")
    names = dict.fromkeys(("key", "value", "headers", "timestamp", *routing))
    written = ((name, outputs[name]) for name in names if name in outputs)
    return replace(parsed, outputs=tuple((name, _as_bytes(name, output)) for name, output in written))


def _routing_of(sink: Sink) -> dict[str, SqlType]:
    """The columns that the sink chooses topic and partition by."""
    topic: dict[str, SqlType] = {"topic": STRING} if sink.topic_from is TopicFrom.COLUMN else {}
    return topic | ({"partition": _INT} if sink.partitioner is Partitioner.SOURCE_PARTITION else {})


def _columns_of(source: Source) -> dict[str, SqlType]:
    """
    :raises InvalidArgument: only Spark knows the types of a side.
    """
    found: dict[str, SqlType] = {}
    for side, chosen, schema in source.sides:
        if chosen is Format.RAW:
            found[side] = Plain.BINARY
        elif chosen is Format.STRING:
            found[side] = STRING
        elif chosen is Format.JSON:
            found[side] = columns_of(schema)
        else:
            raise InvalidArgument(f"with source.format.{side} {chosen}")
    return {**found, **_FIXED}


def _as_bytes(name: str, output: Output) -> Output:
    """A key or a value as text or bytes, as without ``sink.format`` in micro-batches."""
    if name not in ("key", "value"):
        return output
    if isinstance(output, Struct):
        return AsJson(output)
    if not isinstance(output, Field) or output.type in (STRING, Plain.BINARY):
        return output
    if isinstance(output.type, JsonType) and output.type.kind in (Type.STRUCT, Type.ARRAY):
        return AsJson(output)
    if not becomes_text(output.type):
        raise InvalidArgument(f"with {name} as {name_of(output.type)}")
    return AsText(output)


def _type_of(output: Output) -> SqlType:
    if isinstance(output, Struct):
        return JsonType(Type.STRUCT)
    return output.type if isinstance(output, Field) else STRING
