"""The user's function over Arrow batches: what it may return, and how long what its factory returned lives."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.errors import RecordFailed, TransformError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.spark.frames.batch_transform import RESULT_SCHEMA, BatchTransform, check_result, map_in_arrow
from tests.support.jobs.plain_job import plain_spec

SINK = Sink(topic="out", transactional_id_prefix="p")
ENCODED = Sink(
    topic="out", transactional_id_prefix="p",
    format=SinkFormat(key=SinkEncoding.STRING, key_columns=("offset",), value=SinkEncoding.JSON),
)  # fmt: skip
ROUTED = Sink(
    topic="out", transactional_id_prefix="p", topic_from=TopicFrom.COLUMN, partitioner=Partitioner.SOURCE_PARTITION
)

_MODULE = """
import pyarrow as pa
import pyarrow.compute as pc

log = []

def same(batch):
    return batch

def nothing(batch):
    return None

def twice(batch):
    return [batch, batch]

def row_by_row(batch):
    for row in range(batch.num_rows):
        yield batch.slice(row, 1)

def table(batch):
    return pa.Table.from_batches([batch])

def texts(batch):
    return ["a", "b"]

def value_and_more(batch):
    return pa.record_batch({"value": batch.column("value").cast(pa.string()), "other": batch.column("offset")})

def keys(batch):
    return batch.select(["key"])

def numbers(batch):
    return pa.record_batch({"value": batch.column("offset")})

def late(batch, context):
    log.append(context.watermark)
    if context.watermark is None:
        return None
    return batch.filter(pc.less_equal(batch.column("timestamp"), context.watermark))

def strict(batch, context=None):
    assert context is None
    return batch

class Late:
    def __call__(self, batch, context):
        return late(batch, context)

class Model:
    def __init__(self):
        log.append("opened")

    def __call__(self, batch):
        if batch.column("key")[0].as_py() == b"bad":
            raise ValueError("bad key")
        return batch

    def close(self):
        log.append("closed")

class Unclosable(Model):
    def close(self):
        raise OSError("the connection is gone")

def no_function():
    return 42

def broken():
    raise OSError("no model")

def columns(batch):
    return batch.select(["offset", "topic", "headers"]).append_column("late", pc.greater(batch.column("offset"), 0))
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_batches.py").write_text(_MODULE)
    monkeypatch.setenv("KAFKASPARK_CODE", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    __import__("sys").modules.pop("own_batches", None)


def batch(*keys: bytes) -> pa.RecordBatch:
    rows = [
        {
            "key": key, "value": b"v-" + key, "topic": "in", "partition": 3, "offset": offset, "timestamp": 1_000_000,
            "timestampType": 0, "headers": [{"key": "h", "value": b"1"}],
        }
        for offset, key in enumerate(keys)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)


def function(name: str, sink: Sink = SINK) -> BatchTransform:
    return BatchTransform(ArrowTransform(function=f"own_batches:{name}"), sink)


def factory(name: str) -> BatchTransform:
    return BatchTransform(ArrowTransform(factory=f"own_batches:{name}"), SINK)


def log() -> list[object]:
    return list(__import__("own_batches").log)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("same", [[b"a", b"b"], [b"c"]]),
        ("nothing", []),
        ("twice", [[b"a", b"b"], [b"a", b"b"], [b"c"], [b"c"]]),
        ("row_by_row", [[b"a"], [b"b"], [b"c"]]),
    ],
)
def test_a_function_returns_a_batch_or_none_or_several(name: str, keys: list[list[bytes]]) -> None:
    results = list(function(name).map([batch(b"a", b"b"), batch(b"c")]))
    assert [result.column("key").to_pylist() for result in results] == keys
    assert all(result.schema.names == ["key", "value", "headers", "timestamp"] for result in results)


@pytest.mark.parametrize("made", [function("late"), factory("Late")], ids=["function", "factory"])
def test_a_function_of_two_arguments_gets_the_watermark_of_before_the_batch(made: BatchTransform) -> None:
    early, late = datetime(1970, 1, 1, 0, 0, 0, 999_000, UTC), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    given: list[datetime | None] = [None, early, late]
    watermarks = iter(given)
    found = list(made.map([batch(b"a"), batch(b"b"), batch(b"c")], watermark=lambda: next(watermarks)))
    assert [part.column("key").to_pylist() for part in found] == [[], [b"c"]], (
        "a record of the watermark's time is late"
    )
    assert log() == given
    assert list(made.map([batch(b"d")])) == [], "no watermark in the other engine"


def test_a_second_parameter_with_a_default_keeps_it() -> None:
    assert len(list(function("strict").map([batch(b"a")], watermark=lambda: datetime.now(UTC)))) == 1


def test_a_result_keeps_the_columns_that_the_sink_writes_and_routes_by() -> None:
    (result,) = function("same", ROUTED).map([batch(b"a")])
    assert result.schema.names == ["key", "value", "headers", "timestamp", "topic", "partition"]
    (result,) = function("value_and_more").map([batch(b"a")])
    assert result.schema.names == ["value"]


def test_records_that_pass_through_are_read_without_the_columns_that_nobody_needs() -> None:
    unchanged = BatchTransform(ArrowTransform(), ROUTED)
    assert unchanged.source_columns == {"key", "value", "headers", "timestamp", "topic", "partition"}
    assert unchanged.source_columns < function("same").source_columns
    (result,) = BatchTransform(ArrowTransform(), SINK).map([batch(b"a")])
    assert result.schema.names == ["key", "value", "headers", "timestamp"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (function("table"), "the function of own_batches:table returned Table: it may return a RecordBatch"),
        (function("texts"), "the function of own_batches:texts returned list with str"),
        (function("keys"), "a batch of own_batches:keys has not exactly one column 'value': it has key"),
        (function("value_and_more", ROUTED), "has not exactly one column 'topic': it has value, other"),
        (function("missing"), "has no function 'missing'; it has "),
        (factory("no_function"), "the factory own_batches:no_function returned int, which cannot be called"),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_what_is_no_result_is_refused_with_a_remedy(made: BatchTransform, message: str) -> None:
    with pytest.raises(TransformError) as caught:
        list(made.map([batch(b"a")]))
    assert message in caught.value.message
    assert caught.value.remedy


def test_a_factory_is_called_once_and_again_after_a_failure() -> None:
    made = factory("Model")
    made.open()
    assert len(list(made.map([batch(b"a"), batch(b"b")]))) == 2
    assert len(list(made.map([batch(b"c")]))) == 1
    assert log() == ["opened"]
    with pytest.raises(
        RecordFailed, match=r"offset 0, key b'bad': ValueError: bad key \(own_batches.py:55 in __call__\)"
    ):
        list(made.map([batch(b"bad")]))
    made.close()
    made.close()
    list(made.map([batch(b"d")]))
    assert log() == ["opened", "closed", "opened"]


def test_an_exception_of_close_is_in_the_log_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    made = factory("Unclosable")
    made.open()
    with caplog.at_level(logging.ERROR):
        made.close()
    assert "the connection is gone" in caplog.text


def test_a_stage_of_a_micro_batch_fills_columns_and_closes_its_functions() -> None:
    (result,) = map_in_arrow(ArrowTransform(function="own_batches:value_and_more"), SINK, iter([batch(b"a")]))
    assert result.schema == RESULT_SCHEMA
    assert result.to_pylist() == [
        {"key": None, "value": b"v-a", "topic": None, "partition": None, "timestamp": None, "headers": None}
    ]
    (result,) = map_in_arrow(ArrowTransform(function="own_batches:same"), ROUTED, iter([batch(b"a")]))
    assert result == batch(b"a").select(RESULT_SCHEMA.names)
    model = ArrowTransform(factory="own_batches:Model")
    with pytest.raises(RecordFailed, match="offset 0, key b'bad': ValueError: bad key"):
        list(map_in_arrow(model, SINK, iter([batch(b"a"), batch(b"bad")])))
    assert log() == ["opened", "closed"]
    with pytest.raises(TransformError, match="column 'value' has type int64, not binary or string"):
        list(map_in_arrow(ArrowTransform(function="own_batches:numbers"), SINK, iter([batch(b"a")])))


def test_a_format_of_the_sink_takes_any_columns_and_gives_the_sinks() -> None:
    transform = BatchTransform(ArrowTransform(function="own_batches:columns"), ENCODED)
    (result,) = transform.map([batch(b"a", b"b")])
    headers = [{"key": "h", "value": b"1"}]
    assert result.to_pylist() == [
        {"key": "0", "value": b'{"offset":0,"late":false}', "headers": headers},
        {"key": "1", "value": b'{"offset":1,"late":true}', "headers": headers},
    ]
    (staged,) = map_in_arrow(ArrowTransform(function="own_batches:columns"), ENCODED, iter([batch(b"a")]))
    assert staged.schema == RESULT_SCHEMA
    assert staged.select(["key", "value", "headers"]).to_pylist() == [
        {"key": b"0", "value": b'{"offset":0,"late":false}', "headers": headers}
    ]


def test_a_format_of_the_sink_without_a_function_reads_what_it_writes() -> None:
    passing = BatchTransform(ArrowTransform(), ENCODED)
    assert passing.source_columns == {"key", "value", "headers", "timestamp", "offset"}
    text = Sink(topic="out", transactional_id_prefix="p", format=SinkFormat(value=SinkEncoding.RAW))
    (result,) = BatchTransform(ArrowTransform(), text).map([batch(b"a")])
    assert result.select(["key", "value"]).to_pylist() == [{"key": b"a", "value": b"v-a"}]


@pytest.mark.parametrize(
    ("query", "chosen", "refusal"),
    [
        ("SELECT value.d AS value FROM source", {"value": SinkEncoding.STRING},
         "column value is DOUBLE, and string takes text, whole numbers, decimals, dates, booleans"
         " (sink.format.value: string)"),
        ("SELECT value FROM source WHERE value.d > 1", {"value": SinkEncoding.RAW},
         "column value is STRUCT<d, t>, and raw takes BINARY or STRING (sink.format.value: raw)"),
        ("SELECT value.d FROM source", {"value": SinkEncoding.JSON, "key": SinkEncoding.STRING, "key_columns": ("t",)},
         "the result has not exactly one column 't': it has d"),
        ("", {"value": SinkEncoding.STRING}, "column value is BINARY, and string takes text, whole numbers, decimals,"
         " dates, booleans (sink.format.value: string)"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused_without_a_record(query: str, chosen: dict[str, Any], refusal: str) -> None:
    spec = plain_spec(transform=Transform(sql=query), sink=replace(SINK, format=SinkFormat(**chosen)))
    if query:
        source = replace(spec.source, value_format=Format.JSON, value_schema="d DOUBLE, t STRING")
        spec = replace(spec, source=source)
    with pytest.raises(TransformError) as caught:
        check_result(spec)
    assert caught.value.message == refusal


@pytest.mark.parametrize("query", ["", "SELECT value AS text, key FROM source WHERE topic = 'a'"])
def test_columns_that_fit_are_known_without_a_record(query: str) -> None:
    spec = plain_spec(transform=Transform(sql=query), sink=replace(SINK, format=SinkFormat(value=SinkEncoding.JSON)))
    check_result(replace(spec, source=replace(spec.source, value_format=Format.STRING)))
    check_result(replace(spec, sink=SINK))
    check_result(replace(spec, transform=Transform(arrow=ArrowTransform(function="not:imported"))))
