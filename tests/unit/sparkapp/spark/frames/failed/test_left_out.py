"""Records that the driver has found: how tasks get them, what becomes of them, and which errors no record causes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.errors import TransformError, TransformFailed
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.frames.failed.failed_records import failed_records_of
from sparkapp.spark.frames.failed.failure import Failure
from sparkapp.spark.frames.failed.left_out import (
    PROPERTY,
    FoundRecord,
    failure_of,
    leaving_out,
    left_out_of_task,
    may_be_of_a_record,
    without_left_out,
)
from sparkapp.spark.frames.record_policy import write_failed
from tests.support.jobs.plain_job import plain_spec

LETTERS = RecordErrors(transform_policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dlq")
SKIP = RecordErrors(transform_policy=OnRecordError.SKIP)
FAILURE = Failure("ValueError", "bad\nvalue", "risky.py:9 in f", "ValueError: bad value (risky.py:9 in f)")
FOUND = [FoundRecord(TopicPartition("in", 3), offset, FAILURE) for offset in (1, 4)]


class Context:
    """Spark's context of the driver, and that of a task."""

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {}

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value

    def task(self) -> SimpleNamespace:
        return SimpleNamespace(
            stageId=lambda: 0, partitionId=lambda: 0, taskAttemptId=lambda: 0, getLocalProperty=self.properties.get
        )


@pytest.fixture(autouse=True)
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    context = Context()
    monkeypatch.setattr(TaskContext, "get", context.task)
    yield context
    assert not context.properties.get(PROPERTY), "the next micro-batch leaves nothing out"


def job(errors: RecordErrors) -> Job:
    spec = replace(plain_spec(record_errors=errors), transform=Transform(sql="SELECT * FROM source"))
    return Job(namespace="shop", name="orders", uid="u", generation=1, attempt=1, spec=spec)


def batch(partition: int, *values: bytes) -> pa.RecordBatch:
    rows = [
        {"key": b"k", "value": value, "topic": "in", "partition": partition, "offset": n, "timestamp": 1_000}
        for n, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)


class Letters:
    """A writer of letters."""

    def __init__(self) -> None:
        self.written: list[dict[str, object]] = []

    def write_dead_letters(self, batch: pa.RecordBatch, *, topic: str, limit: int) -> None:
        assert (topic, limit > 1000) == ("dlq", True)
        self.written += batch.to_pylist()


def read(of: Job, *batches: pa.RecordBatch) -> list[bytes]:
    left_out = left_out_of_task(of)
    assert left_out is not None
    return [
        value for each in without_left_out(of, left_out, iter(batches)) for value in each.column("value").to_pylist()
    ]


def test_letters_have_the_record_and_the_exception(context: Context) -> None:
    of, writer = job(LETTERS), Letters()
    with leaving_out(context, FOUND):
        assert read(of, batch(3, b"a", b"b", b"c", b"d", b"e", b"f"), batch(2, b"0", b"1")) == [
            b"a",
            b"c",
            b"d",
            b"f",
            b"0",
            b"1",
        ]
    assert write_failed(of, writer) == 0
    assert [letter["value"] for letter in writer.written] == [b"b", b"e"]
    headers = writer.written[0]["headers"]
    assert isinstance(headers, list)
    told = {each["key"].removeprefix("kafkaspark.error."): each["value"].decode() for each in headers}
    assert told == {
        "topic": "in", "partition": "3", "offset": "1", "timestamp": "1", "job.name": "shop.orders",
        "stage": "TRANSFORM", "exception.message": "bad\nvalue", "exception.class.name": "ValueError",
        "exception.location": "risky.py:9 in f",
    }  # fmt: skip


def test_skipped_records_are_counted(context: Context) -> None:
    of = job(SKIP)
    with leaving_out(context, FOUND):
        assert read(of, batch(3, b"a", b"b", b"c")) == [b"a", b"c"]
    assert write_failed(of, Letters()) == 1


def test_a_checkpoint_without_failures_is_read_as_it_is() -> None:
    of = job(LETTERS)
    assert read(of, batch(3, b"a", b"b")) == [b"a", b"b"]
    assert write_failed(of, Letters()) == 0


def test_a_transform_that_stops_early_may_miss_a_letter(context: Context) -> None:
    of = job(LETTERS)
    with leaving_out(context, FOUND):
        left_out = left_out_of_task(of)
        assert left_out is not None
        next(without_left_out(of, left_out, iter([batch(3, b"a"), batch(3, b"b")])))
    with pytest.raises(TransformError, match="stopped before the end"):
        write_failed(of, Letters())


def test_only_plans_of_spark_are_searched_by_the_driver() -> None:
    assert failed_records_of(job(LETTERS)) is None
    assert left_out_of_task(job(RecordErrors())) is None
    arrow = job(LETTERS)
    arrow = replace(arrow, spec=replace(arrow.spec, transform=Transform(arrow=ArrowTransform(function="a:b"))))
    assert left_out_of_task(arrow) is None


def raised(text: str) -> TransformFailed:
    trace = f'Traceback (most recent call last):\n  File "/code/risky.py", line 9, in f\n{text}\n'
    return TransformFailed(f"{text.splitlines()[0]} (risky.py:9 in f)", detail=trace)


@pytest.mark.parametrize(
    ("text", "of_a_record"),
    [
        ("ValueError: bad", True),
        ("ZeroDivisionError", True),
        ("decimal.InvalidOperation: bad", True),
        ("ConnectionError: no service", False),
        ("socket.gaierror: no such name", False),
        ("ModuleNotFoundError: no pandas", False),
        ("MemoryError", False),
        ("nowhere.Failure: of a class that the driver does not know", False),
        ("print: of no class", False),
    ],
)
def test_classes_of_errors_that_a_record_can_cause(text: str, of_a_record: bool) -> None:
    assert may_be_of_a_record(raised(text)) is of_a_record


def test_an_error_of_an_expression_is_named_by_spark() -> None:
    error = TransformFailed("[CAST_INVALID_INPUT] The value 'x' is no INT. SQLSTATE: 22018\n== SQL ==\nCAST")
    assert may_be_of_a_record(error)
    failure = failure_of(error)
    assert (failure.kind, failure.place) == ("CAST_INVALID_INPUT", "")
    assert failure.text == "[CAST_INVALID_INPUT] The value 'x' is no INT. SQLSTATE: 22018 == SQL == CAST"
    assert failure_of(raised("ValueError: bad: very")) == Failure(
        "ValueError", "bad: very", "risky.py:9 in f", "ValueError: bad: very (risky.py:9 in f)"
    )
