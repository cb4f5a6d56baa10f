"""The source of a refused record: the record itself where key and value are its, or else the one that stands out."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaUnreachable, RecordRefused
from sparkapp.model.errors.refusal import KEY_KEPT, Cause, RefusedRecord
from sparkapp.model.partition import TopicPartition
from sparkapp.source.refused_record import with_source

NOW = datetime.fromtimestamp(round(time.time()), UTC)
OLD = datetime(2020, 1, 1, tzinfo=UTC)
SPLITS = (KafkaPartitionSplit(TopicPartition("a", 0), 5, 15), KafkaPartitionSplit(TopicPartition("a", 1), 3, 4))
Row = tuple[bytes | None, bytes | None, datetime | None]


class Consumer:
    """Answers rows of partition 0 from offset 5 on, two batches of them."""

    def __init__(self, rows: list[Row], error: Exception | None = None) -> None:
        self.rows = rows
        self.error = error
        self.closed = False

    def read(self, splits: Any, **_: Any) -> Iterator[pa.RecordBatch]:
        if self.error is not None:
            raise self.error
        fields = [
            {"key": key, "value": value, "topic": "a", "partition": 0, "offset": 5 + number, "timestamp": moment}
            for number, (key, value, moment) in enumerate(self.rows)
        ]
        half = len(fields) // 2
        for some in (fields[:half], [], fields[half:]):
            yield pa.RecordBatch.from_pylist(some, schema=SOURCE_SCHEMA)

    def close(self) -> None:
        self.closed = True


def refused(cause: Cause, key: bytes | None, value: bytes | None, *, is_certain: bool = True) -> RecordRefused:
    error = RecordRefused("refused", remedy="do it")
    error.record = RefusedRecord(
        "sink", 0, None if key is None else key[:KEY_KEPT], -1 if key is None else len(key),
        -1 if value is None else len(value), zlib.crc32(value or b""), is_certain, cause,
    )  # fmt: skip
    error.reading = SPLITS
    return error


def told(error: RecordRefused, rows: list[Row]) -> str:
    consumer = Consumer(rows)
    found = with_source(error, lambda: consumer)  # type: ignore[arg-type,return-value]
    assert consumer.closed
    assert found.remedy == error.remedy
    return found.message.removeprefix("refused")


@pytest.mark.parametrize(
    ("key", "value", "offset"),
    [
        (b"k", b"two", 6), (None, b"two", 7), (b"", b"two", 8), (b"k", None, 9), (b"k", b"", 10),
        (b"k" * 1000, b"x", 11), (b"\xff\x00", b"\x00", 12),
    ],
)  # fmt: skip
def test_key_and_value_tell_a_record(key: bytes | None, value: bytes | None, offset: int) -> None:
    rows: list[Row] = [
        (b"k", b"one", NOW), (b"k", b"two", NOW), (None, b"two", NOW), (b"", b"two", NOW), (b"k", None, NOW),
        (b"k", b"", NOW), (b"k" * 1000, b"x", NOW), (b"\xff\x00", b"\x00", NOW), (b"k" * 999, b"x", NOW),
    ]  # fmt: skip
    assert told(refused(Cause.OTHER, key, value), rows) == f"; it is the source's a-0 offset {offset}"


def test_of_equal_records_the_time_tells() -> None:
    rows: list[Row] = [(b"k", b"v", NOW), (b"k", b"v", OLD), (b"k", b"v", NOW), (b"k", b"v", None)]
    message = told(refused(Cause.TIME, b"k", b"v"), rows)
    assert message == "; it is the source's a-0 offset 6, of 2020-01-01T00:00:00+00:00"


@pytest.mark.parametrize("far", [OLD, NOW + timedelta(days=4000)])
def test_a_record_that_stands_out_by_its_time_is_told_as_that(far: datetime) -> None:
    rows: list[Row] = [(b"a", b"1", NOW), (b"b", b"2", NOW), (b"c", b"3", far), (b"d", b"4", None)]
    for error in (refused(Cause.TIME, b"changed", b"too"), refused(Cause.TIME, b"a", b"1", is_certain=False)):
        message = told(error, rows)
        assert message.startswith("; of the records read, a-0 offset 7 has the time that is farthest from now, of")
        assert str(far.year) in message


def test_a_record_that_stands_out_by_size_or_by_a_missing_key_is_told_as_that() -> None:
    rows: list[Row] = [(b"a", b"1", NOW), (None, b"x" * 99, NOW), (b"k", b"2", NOW)]
    message = told(refused(Cause.SIZE, b"changed", b"y" * 500), rows)
    assert message == "; of the records read, a-0 offset 6 is the largest, with 99 bytes"
    assert told(refused(Cause.KEY, None, b"changed"), rows) == "; of the records read, a-0 offset 6 has no key"


def test_nothing_is_told_that_is_not_known() -> None:
    ranges = ", while it read a-0 offsets 5 to 14, a-1 offset 3"
    assert told(refused(Cause.OTHER, b"changed", b"too"), [(b"a", b"1", NOW)]) == ranges
    assert told(refused(Cause.KEY, None, b"changed"), [(b"a", b"1", NOW)]) == ranges
    unreachable = Consumer([], KafkaUnreachable("away"))
    found = with_source(refused(Cause.KEY, None, b"v"), lambda: unreachable)  # type: ignore[arg-type,return-value]
    assert found.message == f"refused{ranges}"
    assert unreachable.closed
    unknown = RecordRefused("refused")
    assert with_source(unknown, lambda: pytest.fail("nothing was read")) is unknown
