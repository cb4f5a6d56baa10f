"""Which record a failing function fails for: the search, what it costs, and what the message shows of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.errors import KafkaSparkJobError, RecordFailed, TransformError, TransformFailed
from sparkapp.spark.frames.failed import failing_record
from sparkapp.spark.frames.failed.failing_record import named_failure, position_in

_USERS: dict[str, Any] = {}
exec(compile("def number_of(value):\n    return int(value)\n", "/code/risky.py", "exec"), _USERS)


def batch(values: Iterable[bytes], *, key: Any = b"k", kind: pa.DataType | None = None) -> pa.RecordBatch:
    rows = [{"value": value, "topic": "in", "partition": 3, "offset": 7 + n} for n, value in enumerate(values)]
    records = pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)
    return records.set_column(0, "key", pa.array([key] * len(rows), kind or pa.binary()))


class Numbers:
    """A function that reads numbers, and counts the records that it is given."""

    def __init__(self) -> None:
        self.calls = self.records = 0

    def __call__(self, part: pa.RecordBatch) -> Iterable[int]:
        self.calls += 1
        self.records += part.num_rows
        for value in part.column("value").to_pylist():
            yield _USERS["number_of"](value)


def failed(
    function: Callable[[pa.RecordBatch], Iterable[object]], given: pa.RecordBatch
) -> tuple[Exception, Exception]:
    """What the function raises for the batch, and the error to raise in its place."""
    try:
        for _ in function(given):
            pass
    except Exception as error:
        return error, named_failure(error, given, function)
    pytest.fail("the function does not raise")


@pytest.mark.parametrize("row", [0, 1, 499, 998, 999])
def test_a_single_record_is_named_with_its_key_and_the_users_line(row: int) -> None:
    function = Numbers()
    _, named = failed(function, batch(b"x" if n == row else b"1" for n in range(1000)))
    assert type(named) is RecordFailed
    text = "ValueError: invalid literal for int() with base 10: b'x' (risky.py:2 in number_of)"
    assert named.message == f"topic in, partition 3, offset {7 + row}, key b'k': {text}"
    assert 'File "/code/risky.py", line 2, in number_of' in named.detail
    assert function.records <= 3 * 1000 + 1, "the failed call, at most two for its parts, and the last record"
    assert function.calls <= 22


def test_the_first_of_several_is_named_and_the_message_says_that_others_fail() -> None:
    _, named = failed(Numbers(), batch([b"1", b"x", b"1", b"y"]))
    assert isinstance(named, RecordFailed)
    assert "offset 8, " in named.message
    assert named.message.endswith("; it fails for other records, too")


def test_a_batch_whose_halves_do_not_fail_has_no_such_record() -> None:
    def whole(part: pa.RecordBatch) -> Iterable[int]:
        if part.num_rows > 2:
            msg = "too many"
            raise ValueError(msg)
        return ()

    _, named = failed(whole, batch([b"1"] * 8))
    assert type(named) is TransformFailed
    assert named.message == "ValueError: too many, for a batch of 4 records and not for its halves"


def test_another_exception_of_a_part_says_nothing_about_a_record() -> None:
    def unsteady(part: pa.RecordBatch) -> Iterable[int]:
        if part.num_rows > 2:
            msg = "bad"
            raise ValueError(msg)
        raise KeyError(part.num_rows)

    error, named = failed(unsteady, batch([b"1"] * 3))
    assert named is error


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError("no service"), MemoryError(), ImportError("no module"), TransformError("no batch")],
    ids=lambda error: type(error).__name__,
)
def test_what_no_record_can_cause_is_not_searched(error: Exception) -> None:
    calls = []

    def broken(part: pa.RecordBatch) -> Iterable[int]:
        calls.append(part)
        raise error

    assert failed(broken, batch([b"1"] * 4)) == (error, error)
    assert len(calls) == 1


def test_a_search_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing_record, "SECONDS", 0.0)
    function = Numbers()
    error, named = failed(function, batch([b"1", b"x"]))
    assert named is error
    assert function.calls == 1


class Unprintable(ValueError):
    def __str__(self) -> str:
        raise OSError


def test_a_text_of_somebody_else_is_one_line_and_short() -> None:
    def raises(error: Exception) -> KafkaSparkJobError:
        def function(_: pa.RecordBatch) -> Iterable[int]:
            raise error

        _, named = failed(function, batch([b"1"]))
        assert isinstance(named, KafkaSparkJobError)
        return named

    assert raises(ValueError("a\nb\x1b[31m\ud800")).message.endswith(": ValueError: a\\nb\\x1b[31m\\ud800")
    assert len(raises(ValueError("\x00" * 100_000)).message) < 800
    assert ".Unprintable: its text cannot be read" in raises(Unprintable()).message


@pytest.mark.parametrize(
    ("key", "kind", "shown"),
    [
        (None, pa.binary(), ""),
        (b"\xff\n", pa.binary(), ", key b'\\xff\\n'"),
        ("k\x1b", pa.string(), ", key 'k\\x1b'"),
        ({"id": 7}, pa.struct([("id", pa.int64())]), ", key {'id': 7}"),
        (b"k" * 1000, pa.binary(), f", key b'{'k' * 64}'…"),
        ({"at": 1 << 62}, pa.struct([("at", pa.timestamp("us"))]), ""),
    ],
    ids=["null", "bytes", "text", "struct", "long", "no time"],
)
def test_a_key_is_escaped_and_cut(key: Any, kind: pa.DataType, shown: str) -> None:
    assert position_in(batch([b"1"], key=key, kind=kind), 0) == f"topic in, partition 3, offset 7{shown}"
