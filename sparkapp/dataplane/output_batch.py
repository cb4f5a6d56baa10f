"""Columns of a batch to produce, checked and cast to the few types that both producers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkapp.model.errors import TransformError

_BYTES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_CASTS: Mapping[str, pa.DataType] = {
    "key": pa.large_binary(),
    "value": pa.large_binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": pa.timestamp("ms"),
    "headers": _HEADERS,
}
_cast: Any = pc.cast
_REMEDY = (
    "return the columns value, and optionally key (binary or string), headers (as in the source), topic (string), "
    "partition (int) and timestamp (timestamp)"
)


@dataclass(frozen=True, slots=True)
class OutputBatch:
    """An array for each column; None if the batch lacks the column or has only nulls in it (the default applies)."""

    rows: int
    value: pa.Array[Any]
    key: pa.Array[Any] | None
    topic: pa.Array[Any] | None
    partition: pa.Array[Any] | None
    timestamp: pa.Array[Any] | None
    headers: pa.Array[Any] | None

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> OutputBatch:
        """Reads a batch's columns by name; columns of other names are ignored.

        :raises TransformError: there is no value column, or a column has an unsupported type.
        """
        if batch.schema.get_field_index("value") < 0:
            msg = f"the output has no column 'value' but {', '.join(batch.schema.names) or 'none at all'}"
            raise TransformError(msg, remedy=_REMEDY)
        value = _column(batch, "value")
        return cls(
            rows=batch.num_rows,
            value=value,
            key=_optional(batch, "key"),
            topic=_optional(batch, "topic"),
            partition=_optional(batch, "partition"),
            timestamp=_optional(batch, "timestamp"),
            headers=_optional(batch, "headers"),
        )


def _optional(batch: pa.RecordBatch, name: str) -> pa.Array[Any] | None:
    index = batch.schema.get_field_index(name)
    if index < 0 or batch.column(index).null_count == batch.num_rows:
        return None
    if name == "headers" and _has_no_values(batch.column(index)):
        return None
    return _column(batch, name)


def _has_no_values(column: pa.Array[Any]) -> bool:
    """Whether a list column has only empty lists and nulls."""
    return isinstance(column, pa.ListArray) and column.offsets[0] == column.offsets[-1]


def _column(batch: pa.RecordBatch, name: str) -> pa.Array[Any]:
    column = batch.column(batch.schema.get_field_index(name))
    if column.type in _BYTES and name in {"key", "value"}:
        return column
    if name == "timestamp" and not pa.types.is_timestamp(column.type):
        msg = f"the output's column 'timestamp' has type {column.type}"
        raise TransformError(msg, remedy=_REMEDY)
    if name in {"key", "value"} and not _is_bytes_like(column.type):
        msg = f"the output's column {name!r} has type {column.type}, not binary or string"
        raise TransformError(msg, remedy=_REMEDY)
    try:
        if name == "timestamp":
            return _millis(column)
        return column.cast(_CASTS[name]) if column.type != _CASTS[name] else column
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        msg = f"the output's column {name!r} has type {column.type}: {error}"
        raise TransformError(msg, remedy=_REMEDY) from error


def _millis(column: pa.Array[Any]) -> pa.Array[Any]:
    """Milliseconds as in Kafka; finer units are truncated, as in Spark's sink.

    Every produce function of librdkafka treats 0 as "now". The first millisecond of 1970 is therefore written as the
    second millisecond.
    """
    cut = pc.CastOptions(_CASTS["timestamp"], allow_time_truncate=True)
    millis: Any = _cast(column, options=cut).cast(pa.int64())
    first: Any = pc.equal(millis, pa.scalar(0, pa.int64()))
    if pc.any(first).as_py():
        millis = pc.if_else(first, pa.scalar(1, pa.int64()), millis)
    written: pa.Array[Any] = millis.cast(_CASTS["timestamp"])
    return written


def _is_bytes_like(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return (
        pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    )
