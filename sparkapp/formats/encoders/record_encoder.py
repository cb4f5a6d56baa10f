"""From the columns of a result to the columns of the sink: ``spec.sink.format``, the same in both engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from sparkapp.formats.encoders.json_plan import json_plan
from sparkapp.formats.encoders.plan import Node, Unfit, spark_name
from sparkapp.model.errors import EncodeError, ExtensionMissing, SchemaMismatch, TransformError
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.spec import JobSpec

OTHERS = ("key", "headers", "topic", "partition", "timestamp")
"""Columns with a meaning of their own; without a column ``value`` all others make the value."""
_BYTES = (pa.binary(), pa.large_binary())
_TEXTS = (pa.string(), pa.large_string())
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_PROBLEMS = {
    "null": "is null, and the schema takes no null",
    "symbol": "has a text that is no symbol of the schema's enum",
    "size": "has not the number of bytes that the schema's fixed has",
    "range": "has a number beyond the range of the schema's type",
    "finite": "is no finite number, and the schema takes no other",
    "oneof": "has a value, and another field of its oneof has one, too",
    "unset": "is false, and the schema has an Empty that is always written",
    "offsets": "has offsets outside its data: the array is damaged",
}
Encode = Callable[[Any], Any]


def encodes_result(spec: JobSpec) -> bool:
    """Whether the write task of a micro-batch encodes: a stage of ``transform.arrow`` has encoded before it."""
    return spec.sink.format is not None and not spec.transform.arrow.name


def routing_columns(sink: Sink) -> tuple[str, ...]:
    """The columns of the result that the sink's choice of topic and partition needs."""
    topic = ("topic",) if sink.topic_from is TopicFrom.COLUMN else ()
    partition = ("partition",) if sink.partitioner is Partitioner.SOURCE_PARTITION else ()
    return (*topic, *partition)


@dataclass(frozen=True, slots=True)
class _Side:
    """How a side is made: of which columns of the batch, and whether they are a record."""

    names: tuple[str, ...]
    is_record: bool
    encode: Encode


class RecordEncoder:
    """Encodes batches of a result; made for a task, and used by its thread.

    :param sink: with a format, and with the schemas of :func:`.writer_schema.with_writer_schemas`.
    :raises ExtensionMissing: the C extension is not built.
    """

    def __init__(self, sink: Sink) -> None:
        assert sink.format is not None, "a job with sink.format"
        self._format = sink.format
        self._passed = ("headers", "timestamp", *routing_columns(sink))
        self._schema: pa.Schema | None = None
        self._sides: dict[str, _Side] = {}

    def check(self, schema: pa.Schema) -> None:
        """Plans a result of these columns; called before the first record.

        :raises TransformError: a column is missing, or has a type that the format cannot have.
        :raises SchemaMismatch: a column does not fit the writer schema.
        """
        if self._schema is not None and schema.equals(self._schema):
            return
        sides = {side: _side(self._format, side, schema) for side in ("key", "value")}
        self._sides = {side: made for side, made in sides.items() if made is not None}
        if "headers" in schema.names:
            _headers(pa.array([], schema.field("headers").type))
        self._schema = schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are used of a result that was checked."""
        assert self._schema is not None, "a result was checked"
        passed = [name for name in self._passed if name in self._schema.names]
        return tuple(dict.fromkeys([*(name for side in self._sides.values() for name in side.names), *passed]))

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the sink's columns.

        :raises EncodeError: a value that the schema cannot have. Other errors as in :meth:`check`.
        """
        self.check(batch.schema)
        columns = {side: made.encode(_input(batch, made)) for side, made in self._sides.items()}
        for name in self._passed:
            if name in batch.schema.names:
                columns[name] = _headers(batch.column(name)) if name == "headers" else batch.column(name)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _side(chosen: SinkFormat, side: str, schema: pa.Schema) -> _Side | None:
    """None where the result has no key."""
    kind = chosen.key if side == "key" else chosen.value
    given = chosen.key_columns if side == "key" else ()
    bare = kind in (SinkEncoding.RAW, SinkEncoding.STRING)
    names, is_record = given or (side,), bool(given) and not bare
    if not given and side not in schema.names:
        if side == "key":
            return None
        names, is_record = tuple(name for name in schema.names if name not in OTHERS), True
    for name in names:
        if len(schema.get_all_field_indices(name)) != 1:
            _refuse_columns(f"not exactly one column {name!r}", schema)
    if not names or (bare and is_record):
        _refuse_columns("no column 'value'", schema)
    column = (
        pa.struct([schema.field(name) for name in names]) if is_record else _plain_type(schema.field(names[0]).type)
    )
    try:
        return _Side(names, is_record, _encode_of(chosen, side, kind, column, "" if is_record else names[0]))
    except Unfit as unfit:
        if not kind.is_registered:
            raise TransformError(f"{unfit.text} (sink.format.{side}: {kind})", remedy=unfit.remedy) from None
        raise SchemaMismatch(f"{unfit.text} ({_schema_name(chosen, side)})", remedy=unfit.remedy) from None


def _encode_of(chosen: SinkFormat, side: str, kind: SinkEncoding, column: pa.DataType, path: str) -> Encode:
    """:raises Unfit: the type does not fit."""
    if kind is SinkEncoding.RAW:
        if column not in (*_BYTES, *_TEXTS, pa.null()):
            text = f"column {path} is {spark_name(column)}, and raw takes BINARY or STRING"
            raise Unfit(text, f"set sink.format.{side} to string or json, or cast: CAST({path} AS STRING) AS {path}")
        return lambda values: values.cast(pa.binary()) if values.type == pa.null() else values
    if kind is SinkEncoding.STRING:
        return _text_of(side, column, path)
    if kind is SinkEncoding.JSON:
        return _kernel("json", json_plan(column, path), b"")
    schema, where = chosen.schema_of(side), _schema_name(chosen, side)
    frame = b"\0" + schema.number.to_bytes(4, "big")
    if kind is SinkEncoding.JSON_SCHEMA:
        from sparkapp.formats.encoders.json_schema_plan import json_schema_plan
        from sparkapp.formats.json_schemas import Schemas

        return _kernel("json", json_schema_plan(Schemas(schema.text, where), column, path), frame)
    if kind is SinkEncoding.PROTOBUF:
        from sparkapp.formats.encoders.protobuf_plan import frame_of, protobuf_plan
        from sparkapp.formats.protobuf_messages import message_of

        message = message_of(schema.text, where)
        return _kernel("protobuf", protobuf_plan(message, column, path), frame + frame_of(message))
    assert kind is SinkEncoding.AVRO
    from sparkapp.formats.encoders.avro_plan import avro_plan

    return _kernel("avro", avro_plan(json.loads(schema.text), column, path, where), frame)


def _text_of(side: str, column: pa.DataType, path: str) -> Encode:
    """The text that Spark's CAST to STRING gives."""
    if column in _TEXTS:
        return lambda values: values
    if pa.types.is_integer(column) or pa.types.is_boolean(column) or pa.types.is_null(column):
        return lambda values: values.cast(pa.string())  # these have a single text
    if pa.types.is_decimal128(column) or pa.types.is_date32(column):
        return _kernel("cast", json_plan(column, path), b"")
    text = f"column {path} is {spark_name(column)}, and string takes text, whole numbers, decimals, dates, booleans"
    raise Unfit(text, f"cast it: CAST({path} AS STRING) AS {path}; or set sink.format.{side} to json or raw")


def _kernel(name: str, plan: Node, prefix: bytes) -> Encode:
    try:
        from sparkapp.dataplane.native import _kafka_arrow
    except ImportError as error:
        msg = f"sink.format {name} needs the C extension, which does not load: {error}"
        raise ExtensionMissing(msg, remedy="build it with a C compiler (make setup), or use the job's image") from error

    encoder = _kafka_arrow.Encoder(name, plan, prefix)

    def encode(values: pa.Array[Any]) -> pa.Array[Any]:
        values._export_to_c(encoder.slot())
        try:
            return pa.Array._import_from_c(encoder.encode(), pa.large_binary())
        except _kafka_arrow.Unencodable as error:
            row, path, problem = error.args
            msg = f"column {path or 'value'} {_PROBLEMS[problem]} (row {row} of a batch)"
            raise EncodeError(msg) from None

    return encode


def json_texts(kind: pa.DataType) -> Encode:
    """The encoder of a column of structs or arrays as texts of JSON, those of Spark's ``to_json``; null stays null.

    Numbers of DOUBLE have the digits of Java 17, which are more than needed for some. Called by
    :mod:`sparkapp.formats.record_query`.

    :raises ExtensionMissing: the C extension is not built.
    """
    encode = _kernel("json", _with_digits_of_java(json_plan(kind, "")), b"")

    def texts(values: pa.Array[Any]) -> pa.Array[Any]:
        encoded = encode(values)
        return pa.Array.from_buffers(pa.large_string(), len(encoded), encoded.buffers(), offset=encoded.offset)

    return texts


def _with_digits_of_java(node: Node) -> Node:
    children = tuple(map(_with_digits_of_java, node.children))
    return node._replace(write="java_double" if node.write == "double" else node.write, children=children)


def _input(batch: pa.RecordBatch, side: _Side) -> Any:
    columns = [batch.column(name) for name in side.names]
    if not side.is_record:
        column = columns[0]
        return column if column.type == _plain_type(column.type) else column.cast(_plain_type(column.type))
    return pa.StructArray.from_arrays(columns, fields=[batch.schema.field(name) for name in side.names])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary or a view, which only the columns of functions over Arrow batches have."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _headers(column: Any) -> Any:
    """Headers in the source's type, also of a map, and with texts as values."""
    if column.type == _HEADERS:
        return column
    try:
        if pa.types.is_map(column.type):
            entries = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
            # Of a slice, the offsets are a slice, too, which a mask cannot go with.
            offsets = pa.concat_arrays([column.offsets])
            column = pa.ListArray.from_arrays(offsets, entries, mask=column.is_null())
        return column.cast(_HEADERS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        msg = f"column 'headers' is {spark_name(column.type)}: {error}"
        raise TransformError(
            msg, remedy="return headers as MAP<STRING, STRING> or ARRAY<STRUCT<key: STRING, value: BINARY>>"
        ) from None


def _schema_name(chosen: SinkFormat, side: str) -> str:
    schema = chosen.schema_of(side)
    return f"schema {schema.number} of {f'subject {schema.subject!r}' if schema.subject else 'the registry'}"


def _refuse_columns(what: str, schema: pa.Schema) -> NoReturn:
    msg = f"the result has {what}: it has {', '.join(schema.names) or 'nothing'}"
    raise TransformError(msg, remedy="return the column once: AS value, or the columns of sink.format.keyColumns")
