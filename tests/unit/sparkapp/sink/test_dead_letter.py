"""A dead letter: the record as it was, and why."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sparkapp.sink.dead_letter import (
    ERROR,
    KIND,
    LETTER_SCHEMA,
    MAX_MESSAGE,
    PLACE,
    RAW_KEY,
    RAW_VALUE,
    STAGE,
    TRANSFORM,
    dead_letters,
    fitted,
)

ROW = {
    RAW_KEY: b"\xffkey",
    RAW_VALUE: b"{",
    "topic": "in",
    "partition": 3,
    "offset": 17,
    "timestamp": datetime(2026, 11, 21, 8, 0, 0, 123000, tzinfo=UTC),
    "headers": [{"key": "trace", "value": b"\x00\x01"}],
    STAGE: "value",
    ERROR: "the value is not JSON",
}


def letters(*rows):
    more = [(name, pa.string()) for name in (KIND, PLACE) if name in rows[0]]
    batch = pa.RecordBatch.from_pylist(
        list(rows),
        schema=pa.schema(
            [
                *more,
                (RAW_KEY, pa.binary()), (RAW_VALUE, pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
                ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")),
                ("headers", LETTER_SCHEMA.field("headers").type), (STAGE, pa.string()), (ERROR, pa.string()),
            ]
        ),
    )  # fmt: skip
    found = dead_letters(batch, job="shop.orders")
    assert found.schema == LETTER_SCHEMA
    return found.to_pylist()


def headers(letter):
    return [(each["key"], each["value"]) for each in letter["headers"]]


def test_the_record_is_as_it_was_and_its_headers_come_first():
    (letter,) = letters(ROW)
    assert (letter["key"], letter["value"]) == (b"\xffkey", b"{")
    assert headers(letter) == [
        ("trace", b"\x00\x01"),
        ("kafkaspark.error.topic", b"in"),
        ("kafkaspark.error.partition", b"3"),
        ("kafkaspark.error.offset", b"17"),
        ("kafkaspark.error.timestamp", b"1795248000123"),
        ("kafkaspark.error.job.name", b"shop.orders"),
        ("kafkaspark.error.stage", b"VALUE_DECODER"),
        ("kafkaspark.error.exception.message", b"the value is not JSON"),
    ]


def test_a_letter_of_the_transform_has_class_and_line_of_the_exception():
    failed = {**ROW, STAGE: TRANSFORM, ERROR: "bad discount", KIND: "ValueError", PLACE: "risky.py:31 in risky"}
    (letter,) = letters(failed)
    assert headers(letter)[-4:] == [
        ("kafkaspark.error.stage", b"TRANSFORM"),
        ("kafkaspark.error.exception.message", b"bad discount"),
        ("kafkaspark.error.exception.class.name", b"ValueError"),
        ("kafkaspark.error.exception.location", b"risky.py:31 in risky"),
    ]
    large = pa.RecordBatch.from_pylist([{**letter, "value": b"v" * 9000}], schema=LETTER_SCHEMA)
    (cut,) = fitted(large, 2000).to_pylist()
    assert len(cut["value"]) < 2000
    assert [name for name, _ in headers(cut)[:2]] == ["trace", "kafkaspark.error.topic"]
    assert dict(headers(cut))["kafkaspark.error.truncated"] == b"value"


def test_null_keys_values_headers_and_timestamps_stay_null():
    (letter,) = letters({**ROW, RAW_KEY: None, RAW_VALUE: None, "headers": None, "timestamp": None})
    assert (letter["key"], letter["value"]) == (None, None)
    assert headers(letter)[0] == ("kafkaspark.error.topic", b"in")
    assert dict(headers(letter))["kafkaspark.error.timestamp"] == b""


@pytest.mark.parametrize("millis", [-62_135_596_800_001, -1, 0, 253_402_300_800_000, (1 << 63) // 1000 - 1])
def test_the_time_may_be_before_the_year_1_and_after_the_year_9999(millis: int):
    (letter,) = letters({**ROW, "timestamp": pa.scalar(millis * 1000, pa.timestamp("us", tz="UTC"))})
    assert dict(headers(letter))["kafkaspark.error.timestamp"] == str(millis).encode()


def test_a_letter_that_failed_again_keeps_its_first_headers():
    (first,) = letters(ROW)
    (second,) = letters({**ROW, "headers": first["headers"], "topic": "dlq"})
    assert [value for name, value in headers(second) if name == "kafkaspark.error.topic"] == [b"in", b"dlq"]


def test_a_long_error_does_not_make_a_long_letter():
    (letter,) = letters({**ROW, ERROR: "ü" * 5000})
    assert len(dict(headers(letter))["kafkaspark.error.exception.message"].decode()) == MAX_MESSAGE


def test_order_is_kept():
    assert [dict(headers(each))["kafkaspark.error.offset"] for each in letters(ROW, {**ROW, "offset": 18})] == [
        b"17",
        b"18",
    ]


CAUSE = [{"key": f"kafkaspark.error.{name}", "value": b"x" * 40} for name in ("topic", *"bcdefg")]
LIMIT = 10_000


@pytest.mark.parametrize(
    ("key", "value", "previous", "cut"),
    [
        (b"k", b"v" * 9000, [], None),
        (b"k", b"v" * 20_000, [], "value"),
        (None, b"v" * 20_000, [("h", b"y" * 100)], "value"),
        (b"k", b"v", [("h", b"y" * 20_000)], "headers"),
        (b"k", None, [("h", b"y" * 20_000)], "headers"),
        (b"k" * 20_000, None, [], "key"),
        (b"k" * 20_000, b"v" * 20_000, [("h", b"y" * 20_000)], "headers,key,value"),
        (b"k" * 20_000, b"", [("h", None)] * 2000, "headers,key"),
    ],
)  # fmt: skip
def test_a_letter_that_is_too_large_is_cut_and_says_so(
    key: bytes | None, value: bytes | None, previous: list[tuple[str, bytes | None]], cut: str | None
) -> None:
    headers = [{"key": name, "value": text} for name, text in previous] + CAUSE
    letters = pa.RecordBatch.from_pylist([{"key": key, "value": value, "headers": headers}] * 2, schema=LETTER_SCHEMA)
    for letter in fitted(letters, LIMIT).to_pylist():
        found = {header["key"]: header["value"] for header in letter["headers"]}
        size = sum(len(name.encode()) + len(text or b"") for name, text in found.items())
        assert size + len(letter["key"] or b"") + len(letter["value"] or b"") < LIMIT
        assert found.items() >= {header["key"]: header["value"] for header in CAUSE}.items()
        if cut is None:
            assert letter == {"key": key, "value": value, "headers": headers}
            continue
        assert found["kafkaspark.error.truncated"] == cut.encode()
        assert found["kafkaspark.error.value.size"] == str(len(value or b"")).encode()
        assert found["kafkaspark.error.key.size"] == str(len(key or b"")).encode()
        assert (letter["key"] is None, letter["value"] is None) == (key is None, value is None)
        assert (key or b"").startswith(letter["key"] or b"")
        assert (value or b"").startswith(letter["value"] or b"")


def test_a_letter_for_a_narrow_topic_keeps_what_tells_its_place() -> None:
    long = [{"key": f"kafkaspark.error.{name}", "value": b"x" * 1000} for name in "abcdefg"]
    letter = {"key": b"k" * 500, "value": b"v" * 5000, "headers": long}
    (cut,) = fitted(pa.RecordBatch.from_pylist([letter], schema=LETTER_SCHEMA), 2000).to_pylist()
    assert sum(len(header["key"]) + len(header["value"]) for header in cut["headers"]) + len(cut["value"]) < 2000
    assert {header["key"] for header in cut["headers"]} >= {header["key"] for header in long}
