"""A dead letter: the source record as it was, with headers that tell what was wrong with it and where it stood.

The headers are Kafka Connect's (``__connect.errors.topic``, ``.partition``, ``.offset``, ``.stage``,
``.exception.message``) under a prefix of our own; values are text in UTF-8, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sparkapp.dataplane.interface import SOURCE_SCHEMA

HEADER_PREFIX = "kafkaspark.error."
MAX_MESSAGE = 1000
"""Characters of an error text: a letter must fit where its record did, but for some hundred bytes."""

LETTER_SCHEMA = pa.schema([SOURCE_SCHEMA.field(name) for name in ("key", "value", "headers")])
"""Columns of a dead letter. Without a timestamp, so that the topic's retention counts from now: a letter about a record
older than the retention would be deleted unread. The record's timestamp is among the headers."""

RAW_KEY, RAW_VALUE, STAGE, ERROR = "_raw_key", "_raw_value", "_error_stage", "_error"
"""Columns of the rows that :func:`dead_letters` takes, next to the source's other columns."""
_PLACE = ["topic", "partition", "offset", "timestamp", STAGE, ERROR]


def dead_letters(rows: pa.RecordBatch, *, job: str) -> pa.RecordBatch:
    """Letters for rows that did not parse, in order.

    :param rows: raw key and value, ``headers``, ``topic``, ``partition``, ``offset``, ``timestamp``, and the side that
        failed (``key`` or ``value``) with its error text.
    :param job: ``namespace.name``.
    """
    # As a number: a time may be outside the years of a ``datetime``.
    millis = rows.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    places = rows.set_column(rows.schema.get_field_index("timestamp"), "timestamp", millis).select(_PLACE).to_pylist()
    headers = [
        [*(previous or ()), *_cause(job, place)]
        for previous, place in zip(rows.column("headers").to_pylist(), places, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [
            rows.column(RAW_KEY).cast(pa.binary()),
            rows.column(RAW_VALUE).cast(pa.binary()),
            pa.array(headers, LETTER_SCHEMA.field("headers").type),
        ],
        schema=LETTER_SCHEMA,
    )


def _cause(job: str, place: Mapping[str, Any]) -> list[dict[str, Any]]:
    millis: int | None = place["timestamp"]
    texts = {
        "topic": place["topic"],
        "partition": str(place["partition"]),
        "offset": str(place["offset"]),
        "timestamp": "" if millis is None else str(millis),
        "job.name": job,
        "stage": f"{place[STAGE].upper()}_DECODER",
        "exception.message": place[ERROR][:MAX_MESSAGE],
    }
    return [{"key": HEADER_PREFIX + name, "value": text.encode()} for name, text in texts.items()]
