"""A dead letter: the source record as it was, with headers that name its error and its source position.

The headers are Kafka Connect's (``__connect.errors.topic``, ``.partition``, ``.offset``, ``.stage``,
``.exception.class.name``, ``.exception.message``) under a prefix of our own; values are text in UTF-8, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparkapp.dataplane.interface import SOURCE_SCHEMA

HEADER_PREFIX = "kafkaspark.error."
MAX_MESSAGE = 1000
"""Characters of an error text."""
_OVERHEAD = 150
"""Bytes of a record batch with one record, without key, value and headers, at most."""
_FIELD = 10
"""Bytes of the lengths of a header, at most."""

LETTER_SCHEMA = pa.schema([SOURCE_SCHEMA.field(name) for name in ("key", "value", "headers")])
"""Columns of a dead letter. Without a timestamp, so that the topic's retention counts from now: a letter about a record
older than the retention would be deleted unread. The record's timestamp is among the headers."""

RAW_KEY, RAW_VALUE, STAGE, ERROR = "_raw_key", "_raw_value", "_error_stage", "_error"
"""Columns of the rows that :func:`dead_letters` takes, next to the source's other columns."""
KIND, PLACE = "_error_kind", "_error_place"
"""Two more columns where the user's function has failed: the class of the exception, and the user's line."""
TRANSFORM = "transform"
"""A :data:`STAGE`; the others are ``key`` and ``value``."""
_POSITION = ["topic", "partition", "offset", "timestamp", STAGE, ERROR]
_FIRST = f"{HEADER_PREFIX}topic"
"""The first header that :func:`dead_letters` adds."""


def dead_letters(rows: pa.RecordBatch, *, job: str) -> pa.RecordBatch:
    """Letters for rows that failed, in order.

    :param rows: raw key and value, ``headers``, ``topic``, ``partition``, ``offset``, ``timestamp``, and the stage that
        failed with its error text.
    :param job: ``namespace.name``.
    """
    told = [*_POSITION, *(name for name in (KIND, PLACE) if name in rows.schema.names)]
    # As a number: a time may be outside the years of a ``datetime``.
    millis = rows.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    positions = rows.set_column(rows.schema.get_field_index("timestamp"), "timestamp", millis).select(told).to_pylist()
    headers = [
        [*(previous or ()), *_cause(job, position)]
        for previous, position in zip(rows.column("headers").to_pylist(), positions, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [
            rows.column(RAW_KEY).cast(pa.binary()),
            rows.column(RAW_VALUE).cast(pa.binary()),
            pa.array(headers, LETTER_SCHEMA.field("headers").type),
        ],
        schema=LETTER_SCHEMA,
    )


def fitted(letters: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """The letters, those that are too large cut. Called by the writer, which knows the topic's limit.

    A cut letter says so in headers: what is cut, and the sizes that it had. Of value and key the beginning stays.

    :param limit: ``max.message.bytes`` of the dead letter topic.
    """
    if letters.nbytes + letters.num_rows * _OVERHEAD <= limit:
        return letters
    rows = [_cut(letter, limit) for letter in letters.to_pylist()]
    return pa.RecordBatch.from_pylist(rows, schema=LETTER_SCHEMA)


def _cut(letter: dict[str, Any], limit: int) -> dict[str, Any]:
    key, value, headers = letter["key"], letter["value"], [header for header in letter["headers"] or () if header]
    if _size(key, value, headers) <= limit:
        return letter
    own = max((place for place, header in enumerate(headers) if header["key"] == _FIRST), default=0)
    previous, cause = headers[:own], headers[own:]
    parts = {"value": len(value or b""), "key": len(key or b""), "headers": _size(None, None, previous) - _OVERHEAD}
    sizes = [_header(f"{part}.size", str(size)) for part, size in parts.items()]
    told = [*cause, *sizes, _header("truncated", ",".join(parts))]
    if _size(None, None, told) > limit // 2:
        told = [{**header, "value": header["value"][: limit // 50]} for header in told]
    room = max(0, limit - _size(None, None, told))
    cut = []
    if parts["headers"] > room // 4:
        previous, parts["headers"] = [], 0
        cut.append("headers")
    room -= parts["headers"]
    if parts["key"] > room // 2:
        key, parts["key"] = key[: room // 2], room // 2
        cut.append("key")
    room -= parts["key"]
    if parts["value"] > room:
        value = value[:room]
        cut.append("value")
    told[-1] = _header("truncated", ",".join(cut))
    return {"key": key, "value": value, "headers": [*previous, *told]}


def _size(key: bytes | None, value: bytes | None, headers: Sequence[Mapping[str, Any]]) -> int:
    """Upper bound of a record batch with this record alone."""
    fields = sum(len((header["key"] or "").encode()) + len(header["value"] or b"") + _FIELD for header in headers)
    return _OVERHEAD + len(key or b"") + len(value or b"") + fields


def _header(name: str, text: str) -> dict[str, Any]:
    return {"key": HEADER_PREFIX + name, "value": text.encode()}


def _cause(job: str, position: Mapping[str, Any]) -> list[dict[str, Any]]:
    millis: int | None = position["timestamp"]
    stage = position[STAGE]
    texts = {
        "topic": position["topic"],
        "partition": str(position["partition"]),
        "offset": str(position["offset"]),
        "timestamp": "" if millis is None else str(millis),
        "job.name": job,
        "stage": stage.upper() if stage == TRANSFORM else f"{stage.upper()}_DECODER",
        "exception.message": position[ERROR][:MAX_MESSAGE],
    }
    if KIND in position:
        texts |= {"exception.class.name": position[KIND][:MAX_MESSAGE], "exception.location": position[PLACE]}
    return [_header(name, text) for name, text in texts.items()]
