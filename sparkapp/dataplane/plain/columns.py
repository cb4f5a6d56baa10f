"""Arrow columns from message objects, for the plain consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from sparkapp.dataplane.interface import SOURCE_SCHEMA

_MICROS_END = 1 << 63


def batch_of(messages: Sequence[Message], columns: frozenset[str]) -> pa.RecordBatch:
    """The messages as a batch of :data:`SOURCE_SCHEMA`; columns that are not requested are null."""
    arrays = [
        pa.array([_VALUE_OF[field.name](message) for message in messages], field.type)
        if field.name in columns
        else pa.nulls(len(messages), field.type)
        for field in SOURCE_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SOURCE_SCHEMA)


def _timestamp(message: Message) -> int | None:
    kind, millis = message.timestamp()
    micros = millis * 1000
    # Null without a timestamp, and where microseconds overflow the column (in the year 294,247).
    return None if kind == TIMESTAMP_NOT_AVAILABLE or not -_MICROS_END <= micros < _MICROS_END else micros


def _timestamp_type(message: Message) -> int:
    # Spark and Kafka: -1 none, 0 create time, 1 append time; librdkafka's values are higher by 1.
    return int(message.timestamp()[0]) - 1


def _headers(message: Message) -> list[dict[str, object]] | None:
    # As in Spark's own source, a record without headers has null, not an empty list.
    return [{"key": key, "value": value} for key, value in message.headers() or ()] or None


def _call(name: str, message: Message) -> object:
    return getattr(message, name)()


_VALUE_OF: Mapping[str, Callable[[Message], object]] = {
    "key": partial(_call, "key"),
    "value": partial(_call, "value"),
    "topic": partial(_call, "topic"),
    "partition": partial(_call, "partition"),
    "offset": partial(_call, "offset"),
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
}
