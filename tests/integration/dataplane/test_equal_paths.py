"""Both implementations write and read what they were given: native = plain = the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkapp.dataplane.interface import SOURCE_SCHEMA, BatchConsumer, BatchProducer
from tests.support.native.batch_path import BatchPath, split, table_of

HEADERS = SOURCE_SCHEMA.field("headers").type
LAST = (1 << 63) - 1
_BYTES = st.none() | st.binary(max_size=40)
_NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
_HEADER = st.none() | st.fixed_dictionaries({"key": st.none() | _NAME, "value": _BYTES})
_MILLIS = st.none() | st.sampled_from([0, 1, LAST // 1000, LAST // 1000 + 1, LAST]) | st.integers(0, LAST)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"value": _BYTES, "key": _BYTES, "millis": _MILLIS, "headers": st.none() | st.lists(_HEADER, max_size=4)}
    ),
    min_size=1,
    max_size=12,
)
KINDS = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])


def batch_of(rows: list[dict[str, Any]], kind: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "value": pa.array([row["value"] for row in rows]).cast(kind),
            "key": pa.array([row["key"] for row in rows], pa.binary()).cast(kind),
            "timestamp": pa.array([row["millis"] for row in rows], pa.timestamp("ms")),
            "headers": pa.array([row["headers"] for row in rows], HEADERS),
        }
    )


def expected(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a reader gets, but for the time of a record that was given none."""
    headers = [{"key": each["key"] or "", "value": each["value"]} for each in row["headers"] or () if each is not None]
    millis = row["millis"] or (1 if row["millis"] == 0 else None)
    micros = None if millis is None or millis * 1000 > LAST else millis * 1000
    return row["value"], row["key"], headers or None, micros


def test_native_and_plain_write_and_read_the_same(broker: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(message_timestamp_after_max_ms=str(LAST))
    paths = [BatchPath(name, broker) for name in ("native", "plain")]
    clients: list[tuple[BatchProducer, BatchConsumer]] = [
        (path.producer(linger_ms="0"), path.consumer()) for path in paths
    ]
    position = 0

    @settings(max_examples=40)
    @given(rows=ROWS, kind=KINDS, head=st.integers(0, 3), tail=st.integers(0, 3))
    def check(rows: list[dict[str, Any]], kind: pa.DataType, head: int, tail: int) -> None:
        nonlocal position
        cut = rows[head : len(rows) - tail]
        batch = batch_of(rows, kind).slice(head, len(cut))
        begin = position
        for producer, _ in clients:
            producer.produce(batch, topic=topic)
            assert producer.flush(30) == len(cut)
            position += len(cut)
        if not cut:
            return
        for _, consumer in clients:
            table = table_of(consumer.read([split(topic, begin, position)]))
            columns = [table[name].to_pylist() for name in ("value", "key", "headers")]
            times = [each.value for each in table["timestamp"]]
            for row, got in zip(cut * 2, zip(*columns, times, strict=True), strict=True):
                wanted = expected(row)
                assert got[:3] == wanted[:3]
                assert row["millis"] is None or got[3] == wanted[3]

    try:
        check()
    finally:
        for path in paths:
            path.close()
