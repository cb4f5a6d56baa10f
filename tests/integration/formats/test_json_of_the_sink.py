"""``sink.format: json`` has the text of Spark's ``to_json``, and ``string`` that of its ``CAST``."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sparkapp.formats.encoders.record_encoder import RecordEncoder
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat

pytestmark = pytest.mark.spark

SCHEMA = (
    "i BIGINT, small TINYINT, s STRING, b BOOLEAN, bytes BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ,"
    " money DECIMAL(20, 6), tiny DECIMAL(12, 12), whole DECIMAL(38, 0), list ARRAY<STRUCT<x: INT, y: STRING>>,"
    ' m MAP<STRING, BIGINT>, inner STRUCT<`a b`: STRING, l: ARRAY<ARRAY<BOOLEAN>>>, `ü"` STRING, d DOUBLE, f FLOAT'
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS = st.integers(-62_000_000_000_000_000, 250_000_000_000_000_000)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ROWS = st.tuples(
    optional(st.integers(-(2**63), 2**63 - 1)),
    optional(st.integers(-128, 127)),
    optional(st.text(max_size=8)),
    optional(st.booleans()),
    optional(st.binary(max_size=8)),
    optional(st.dates(date(1, 1, 1), date(9999, 12, 31))),
    optional(MICROS.map(lambda micros: EPOCH + timedelta(microseconds=micros))),
    optional(MICROS.map(lambda micros: (EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None))),
    optional(st.integers(-(10**19), 10**19).map(lambda number: Decimal(number).scaleb(-6))),
    optional(st.integers(-(10**11), 10**11).map(lambda number: Decimal(number).scaleb(-12))),
    optional(st.integers(-(10**37), 10**37).map(Decimal)),
    optional(st.lists(optional(st.tuples(optional(st.integers(-9, 9)), optional(st.text(max_size=2)))), max_size=3)),
    optional(st.dictionaries(st.text(max_size=3), optional(st.integers(-9, 9)), max_size=3)),
    optional(st.tuples(optional(st.text(max_size=2)), optional(st.lists(st.lists(st.booleans(), max_size=2))))),
    optional(st.text(max_size=2)),
    optional(st.floats() | st.integers(-(10**9), 10**9).map(lambda number: number / 1000)),
    optional(st.floats(width=32)),
)  # fmt: skip


def generated() -> list[Any]:
    found: list[Any] = []

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rows=st.lists(ROWS, min_size=10, max_size=40))
    def collect(rows: list[Any]) -> None:
        found.extend(rows)

    collect()
    return found


def as_judged(text: str) -> tuple[dict[str, Any], list[str], list[Any]]:
    """The fields by their texts; the order of all; and the values of FLOAT and DOUBLE, of which Java 17 has more digits
    than needed for some."""
    fields = json.loads(text, parse_float=str)
    order = list(fields)
    double, single = (fields.pop(name, None) for name in ("d", "f"))
    return fields, order, [repr(double and float(double)), repr(single and np.float32(float(single)))]


def test_every_row_has_the_text_of_spark(spark: SparkSession) -> None:
    rows = generated()
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    judge = [row.text for row in frame.select(f.to_json(f.struct("*")).alias("text")).collect()]
    chosen = SinkFormat(value=SinkEncoding.JSON)
    encoder = RecordEncoder(Sink(topic="t", transactional_id_prefix="p", format=chosen))
    ours: list[str] = []
    for batch in frame.toArrow().to_batches():
        ours += [value.decode() for value in encoder.encode(batch).column("value").to_pylist()]
    assert len(ours) == len(rows) > 300
    for row, by_us, by_spark in zip(rows, ours, judge, strict=True):
        assert as_judged(by_us) == as_judged(by_spark), row
    assert sum(map(str.__eq__, ours, judge)) > len(rows) / 2, "most texts are equal as a whole"


def test_a_string_has_the_text_of_a_cast(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT date_add(DATE'1970-01-01', n) AS key, CAST(CAST(n AS STRING) || 'E-10' AS DECIMAL(38, 18)) AS value"
        " FROM VALUES (-719529), (-719528), (-1), (0), (100), (2932896), (2932897), (20000000) AS numbers(n)"
    ).coalesce(1)
    judge = frame.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value").collect()
    chosen = SinkFormat(key=SinkEncoding.STRING, value=SinkEncoding.STRING)
    encoder = RecordEncoder(Sink(topic="t", transactional_id_prefix="p", format=chosen))
    ours = [row for batch in frame.toArrow().to_batches() for row in encoder.encode(batch).to_pylist()]
    assert [(row["key"].decode(), row["value"].decode()) for row in ours] == [tuple(row) for row in judge]
