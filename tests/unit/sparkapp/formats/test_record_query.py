"""A narrow query over Arrow batches. The integration tests compare its results with those of Spark."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.formats.record_query import RecordQuery
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.narrow_sql.query import narrow_query
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.transform import Transform
from tests.support.jobs.plain_job import plain_spec

VALUE = pa.struct([("n", pa.int32()), ("d", pa.float64()), ("e", pa.float64()), ("s", pa.string()), ("b", pa.bool_())])
NAN = math.nan


def run(
    query: str, values: list[dict[str, Any] | None], keys: list[bytes | None] | None = None, **fields: Any
) -> dict[str, Any]:
    spec = plain_spec(transform=Transform(sql=query), **fields)
    schema = "n INT, d DOUBLE, e DOUBLE, s STRING, b BOOLEAN"
    spec = replace(spec, source=replace(spec.source, value_format=Format.JSON, value_schema=schema))
    batch = pa.record_batch(
        {"key": pa.array(keys or [None] * len(values), pa.binary()), "value": pa.array(values, VALUE)}
    )
    found = RecordQuery(narrow_query(spec))(batch)
    return {} if found is None else {name: found.column(name).to_pylist() for name in found.schema.names}


def test_outputs_of_the_records_that_are_kept() -> None:
    values = [{"n": 1, "s": "a"}, None, {"n": 3, "s": 'ü"'}, {"n": None, "s": "d"}]
    found = run("SELECT key, to_json(struct(value.n, value.s)) AS value FROM source WHERE value.n > 0", values)
    assert found == {"key": [None, None], "value": ['{"n":1,"s":"a"}', '{"n":3,"s":"ü\\""}']}
    assert run("SELECT value FROM source", values)["value"] == [
        '{"n":1,"s":"a"}',
        None,
        '{"n":3,"s":"ü\\""}',
        '{"s":"d"}',
    ]
    assert run("SELECT value.n AS value FROM source WHERE value.n > 3", values) == {}
    assert run("SELECT value.n AS value FROM source WHERE value.n < 3", values) == {"value": ["1"]}


def test_a_struct_is_a_column_of_a_sink_with_a_format() -> None:
    sink = Sink(topic="out", transactional_id_prefix="p", format=SinkFormat(value=SinkEncoding.JSON))
    query = "SELECT struct(value.n, CAST(key AS STRING) AS k) AS pair FROM source WHERE value.b"
    found = run(query, [{"n": 1, "b": True}, {"n": 2}, {"b": True}], [b"a", b"b", None], sink=sink)
    assert found == {"pair": [{"n": 1, "k": "a"}, {"n": None, "k": None}]}


def test_bytes_become_text_as_they_are() -> None:
    found = run("SELECT CAST(key AS STRING) AS key, value.b AS value FROM source", [{"b": True}, {}], [b"k", None])
    assert found == {"key": ["k", None], "value": ["true", None]}


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("value.d = value.e", "cd"), ("value.d <> value.e", "abe"), ("value.d < value.e", "a"),
        ("value.d <= value.e", "acd"), ("value.d > value.e", "be"), ("value.d >= value.e", "bcde"),
        ("value.d > 1", "bce"), ("value.d >= 1.5", "bce"), ("value.d < 2.0", "ad"), ("value.d <> 0.0", "abce"),
        ("value.e = 0", "d"), ("NOT (value.d > 1 AND value.e > 1)", "abde"),
    ],
)  # fmt: skip
def test_nan_is_equal_to_itself_and_above_all_numbers(condition: str, kept: str) -> None:
    pairs = {"a": (1.0, 2.0), "b": (NAN, 1.0), "c": (NAN, NAN), "d": (0.0, -0.0), "e": (2.0, 1.0), "f": (NAN, None)}
    values = [{"s": name, "d": d, "e": e} for name, (d, e) in pairs.items()]
    found = run(f"SELECT value.s AS value FROM source WHERE ({condition}) AND value.s <> 'f'", values)
    assert "".join(found["value"]) == kept


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("value.n = 1 OR value.b", "ab"), ("NOT (value.n = 1 OR value.b)", "c"), ("value.b", "b"),
        ("value.n <> 1 AND value.b = FALSE", "c"), ("value.n IN (1, 3)", "a"), ("value.n NOT IN (1)", "bc"),
        ("value.n IS NULL", "d"), ("value.b IS NOT NULL", "bcd"), ("value.n BETWEEN 1 AND 2", "ab"),
    ],
)  # fmt: skip
def test_null_is_neither_true_nor_false(condition: str, kept: str) -> None:
    rows = {"a": (1, None), "b": (2, True), "c": (5, False), "d": (None, False)}
    values = [{"s": name, "n": n, "b": b} for name, (n, b) in rows.items()]
    found = run(f"SELECT value.s AS value FROM source WHERE {condition}", values)
    assert "".join(found.get("value", [])) == kept


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("value.n IN (1, 3, 5, 9000000000)", "ac"), ("value.n NOT IN (1, 3)", "bc"), ("value.d IN (0.0, 2.5)", "ab"),
        ("value.d NOT IN (1, 2.5)", "ac"), ("value.s IN ('a', 'd')", "ad"), ("value.b IN (TRUE, FALSE)", "bc"),
        ("NOT (value.n IN (1, 2) OR value.d IN (7, 8))", "c"), ("CAST(value.n AS STRING) IN ('1', '5')", "ac"),
    ],
)  # fmt: skip
def test_a_value_among_literals(condition: str, kept: str) -> None:
    rows = {"a": (1, -0.0, None), "b": (2, 2.5, True), "c": (5, NAN, False), "d": (None, None, None)}
    values = [{"s": name, "n": n, "d": d, "b": b} for name, (n, d, b) in rows.items()]
    found = run(f"SELECT value.s AS value FROM source WHERE {condition}", values)
    assert "".join(found.get("value", [])) == kept
