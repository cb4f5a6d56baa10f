"""``onTransformError``: which records are left out, what their letters have, and what is no record's fault."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.dataplane.statistics import TOTALS
from sparkapp.model.errors import TransformError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Job
from sparkapp.sink.dead_letter import RAW_KEY, RAW_VALUE
from sparkapp.source import record_tally
from sparkapp.source.record_tally import TRANSFORM, Group, tallies
from sparkapp.spark.frames.batch_transform import BatchTransform
from sparkapp.spark.frames.failed.failed_records import failed_records_of
from sparkapp.spark.frames.record_policy import kept_columns, write_failed
from tests.support.jobs.plain_job import plain_spec

LETTERS = RecordErrors(transform_policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dlq")
SKIP = RecordErrors(transform_policy=OnRecordError.SKIP)
_LATE = 1_764_000_000_000_000_000
"""A time in microseconds, in the year 57,868: no stage may make a ``datetime`` of it."""
_MODULE = """
import pyarrow as pa

calls = []


def numbers(batch):
    calls.append(batch.num_rows)
    assert batch.schema.names[:2] == ["key", "value"] and len(batch.schema.names) == 8
    values = [str(int(value)) for value in batch.column("value").to_pylist()]
    return batch.set_column(1, "value", pa.array(values))


def generated(batch):
    for row in range(batch.num_rows):
        yield numbers(batch.slice(row, 1))


def offline(batch):
    raise ConnectionError("no service")


def wrong(batch):
    return 7


def empty(batch):
    if not batch.num_rows:
        raise ValueError("nothing")
    return batch
"""


@pytest.fixture(autouse=True)
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_failing.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    task = SimpleNamespace(stageId=lambda: 0, partitionId=lambda: 0, taskAttemptId=lambda: 0)
    monkeypatch.setattr(TaskContext, "get", lambda: task)
    monkeypatch.setattr(record_tally, "_known", set())
    monkeypatch.setattr(record_tally, "_shown", set())
    yield
    __import__("sys").modules.pop("own_failing", None)


def job(errors: RecordErrors, **source: object) -> Job:
    spec = plain_spec(
        source=Source(topics=("in",), group_id="g"), record_errors=errors,
        transform=Transform(arrow=ArrowTransform(function="own_failing:numbers")),
    )  # fmt: skip
    spec = replace(spec, source=replace(spec.source, **source))
    return Job(namespace="shop", name="orders", uid="u", generation=1, attempt=1, spec=spec)


def batch(*values: bytes, topic: str = "in") -> pa.RecordBatch:
    rows = [
        {"key": b"k%d" % n, "value": value, "topic": topic, "partition": 3, "offset": n, "timestamp": _LATE}
        for n, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)


class Letters:
    """A writer of letters."""

    def __init__(self) -> None:
        self.written: list[dict[str, object]] = []
        self.topics: set[str] = set()

    def write_dead_letters(self, batch: pa.RecordBatch, *, topic: str, limit: int) -> None:
        assert limit > 1000
        self.topics.add(topic)
        self.written += batch.to_pylist()


def mapped(of: Job, batches: Sequence[pa.RecordBatch], name: str = "numbers") -> list[str]:
    """The values of the function's results."""
    arrow = ArrowTransform(function=f"own_failing:{name}")
    transform = BatchTransform(arrow, of.spec.sink, failed_records_of(of))
    return [value for result in transform.map(batches) for value in result.column("value").to_pylist()]


def headers(letter: dict[str, object]) -> dict[str, str]:
    found = letter["headers"]
    assert isinstance(found, list)
    return {each["key"].removeprefix("kafkaspark.error."): each["value"].decode() for each in found}


@pytest.mark.parametrize("name", ["numbers", "generated"])
def test_records_that_fail_alone_become_letters_and_the_others_stay_in_order(name: str) -> None:
    writer, of = Letters(), job(LETTERS)
    values = [b"x" if n in {0, 7, 8, 99} else b"%d" % n for n in range(100)]
    assert mapped(of, [batch(*values), batch(b"5")], name) == [str(n) for n in range(100) if n not in {0, 7, 8, 99}] + [
        "5"
    ]
    assert write_failed(of, writer) == 0
    assert writer.topics == {"dlq"}
    assert [(letter["key"], letter["value"]) for letter in writer.written] == [
        (b"k%d" % n, b"x") for n in (0, 7, 8, 99)
    ]
    told = headers(writer.written[1])
    assert told == {
        "topic": "in", "partition": "3", "offset": "7", "timestamp": str(_LATE // 1000), "job.name": "shop.orders",
        "stage": "TRANSFORM", "exception.message": "invalid literal for int() with base 10: b'x'",
        "exception.class.name": "ValueError", "exception.location": "own_failing.py:10 in <listcomp>",
    }  # fmt: skip


def test_a_batch_without_a_failure_is_one_call() -> None:
    assert len(mapped(job(SKIP), [batch(*[b"1"] * 1000)])) == 1000
    assert __import__("own_failing").calls == [1000]
    assert write_failed(job(SKIP), Letters()) == 0


def test_records_that_are_skipped_are_counted() -> None:
    writer = Letters()
    assert mapped(job(SKIP), [batch(b"x", b"1", b"y"), batch(b"z")]) == ["1"]
    assert len(__import__("own_failing").calls) == 3 + 2 + 1
    assert write_failed(job(SKIP), writer) == 3
    assert writer.written == []


def test_failures_are_counted_by_topic_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    added: dict[str, int] = {}
    monkeypatch.setattr(TOTALS, "add", lambda counts: added.update({k: added.get(k, 0) + n for k, n in counts.items()}))
    mapped(job(SKIP), [batch(b"1", b"x", b"2"), batch(b"y", topic="other")])
    found = tallies({"worker": added})
    assert found[Group(TRANSFORM, "in")][:2] == (2, 1)
    assert found[Group(TRANSFORM, "other")][:2] == (0, 1)
    example = found[Group(TRANSFORM, "in")].example
    assert example is not None
    assert example[:3] == ("in", 3, 1)
    assert example.error.startswith("ValueError: invalid literal for int() with base 10: b'x' (own_failing.py:10 in ")


@pytest.mark.parametrize(
    ("name", "error"),
    [("offline", ConnectionError), ("wrong", TransformError), ("empty", ValueError)],
)
def test_what_no_record_can_cause_fails_the_task(name: str, error: type[Exception]) -> None:
    of = job(LETTERS)
    given = batch(b"1", b"2")
    with pytest.raises(error):
        mapped(of, [given.slice(0, 0) if name == "empty" else given], name)
    with pytest.raises(TransformError, match="stopped before the end"):
        write_failed(of, Letters())


def test_a_letter_has_the_raw_sides_of_a_decoded_record() -> None:
    of = job(LETTERS, value_format=Format.JSON, value_schema="n BIGINT")
    assert kept_columns(of.spec)[-2:] == [RAW_KEY, RAW_VALUE]
    assert kept_columns(job(SKIP, value_format=Format.STRING).spec) == SOURCE_SCHEMA.names
    assert kept_columns(job(LETTERS).spec) == SOURCE_SCHEMA.names
    decoded = batch(b"x").append_column(RAW_KEY, pa.array([b"raw key"])).append_column(RAW_VALUE, pa.array([b"{"]))
    assert mapped(of, [decoded]) == []
    writer = Letters()
    write_failed(of, writer)
    assert [(letter["key"], letter["value"]) for letter in writer.written] == [(b"raw key", b"{")]


def test_a_job_that_fails_has_no_such_part_and_the_other_travels_to_workers() -> None:
    assert failed_records_of(job(RecordErrors())) is None
    assert pickle.loads(pickle.dumps(failed_records_of(job(LETTERS)))) is not None
