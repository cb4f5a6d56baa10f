"""Both engines give the same records and refuse the same values in JSON: Spark is the judge."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.spec import Job
from sparkapp.source.formats.json_text.decoder import JsonDecoder
from sparkapp.spark.frames.formats.json_columns import JsonReader, json_column
from sparkapp.spark.frames.formats.json_format import parse_json
from sparkapp.spark.frames.record_policy import error_column
from tests.support.formats.json_corpus import CASES, COLUMNS, FRACTIONS, FRAMED, LIMITS
from tests.support.jobs.plain_job import plain_spec

pytestmark = pytest.mark.spark

Read = dict[str, Any] | None
SPEC = plain_spec()
SCHEMAS = (
    COLUMNS,
    "a STRUCT<b: ARRAY<STRUCT<c: DOUBLE, d: STRING>>, e: BOOLEAN>, i INT",
    "l ARRAY<ARRAY<BIGINT>>, s ARRAY<STRING>, d ARRAY<DOUBLE>",
    "`a b` STRING, `ü` INT, I INT, i_2 TINYINT",
)


def read_by_spark(spark: SparkSession, values: list[bytes], schema: str) -> list[Read]:
    rows = [(number, bytearray(value)) for number, value in enumerate(values)]
    parsed = parse_json(spark.createDataFrame(rows, "number INT, value BINARY").coalesce(1), "value", schema)
    found = {row["number"]: row for row in parsed.collect()}
    return [
        None if found[number][error_column("value")] is not None else found[number]["value"].asDict(recursive=True)
        for number in range(len(values))
    ]


def read_by_us(values: list[bytes], schema: str) -> list[tuple[Read, str | None]]:
    records, errors = JsonDecoder(schema, "value").decode(pa.array(values, pa.binary()))
    return [
        (None if error else record, error)
        for record, error in zip(records.to_pylist(), errors.to_pylist(), strict=True)
    ]


def read_by_readers(spark: SparkSession, values: list[bytes], schema: str) -> list[Read]:
    """As a micro-batch reads them: Spark parses what the readers leave as text."""
    spec = replace(SPEC, source=replace(SPEC.source, value_format=Format.JSON, value_schema=schema))
    job = Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)
    rows = [{"value": value, "topic": "t", "partition": 0, "offset": at} for at, value in enumerate(values)]
    column = json_column("value")
    reader = JsonReader(job, frozenset({"value", column}))
    batch = reader.added(pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA))
    table = pa.Table.from_batches([batch.select(["offset", "value", column])])
    parsed = parse_json(spark.createDataFrame(table).coalesce(1), "value", schema)
    found = {row["offset"]: row for row in parsed.collect()}
    return [
        None if found[number][error_column("value")] is not None else found[number]["value"].asDict(recursive=True)
        for number in range(len(values))
    ]


def test_the_corpus_is_what_spark_says(spark: SparkSession) -> None:
    values = [value for value, _ in CASES]
    for (value, expected), found in zip(CASES, read_by_spark(spark, values, COLUMNS), strict=True):
        columns = found and {name: each for name, each in found.items() if each is not None}
        assert repr(columns) == repr(expected), value
    by_readers = [
        found and {k: v for k, v in found.items() if v is not None} for found in read_by_readers(spark, values, COLUMNS)
    ]
    assert list(map(repr, by_readers)) == [repr(expected) for _, expected in CASES]
    limits = read_by_spark(spark, [value for value, _ in LIMITS], COLUMNS)
    assert [found is not None for found in limits] == [parses for _, parses in LIMITS]
    for (value, text), found in zip(
        FRACTIONS, read_by_spark(spark, [value for value, _ in FRACTIONS], COLUMNS), strict=True
    ):
        assert found is not None, (value, text)  # the text itself is a matter of the Java release


def test_both_engines_name_a_registrys_frame(spark: SparkSession) -> None:
    values = [value for value, _ in FRAMED]
    rows = [(number, bytearray(value)) for number, value in enumerate(values)]
    for side in ("key", "value"):
        frame = spark.createDataFrame(rows, f"number INT, {side} BINARY").coalesce(1)
        found = {row["number"]: row[error_column(side)] for row in parse_json(frame, side, COLUMNS).collect()}
        _, ours = JsonDecoder(COLUMNS, side).decode(pa.array(values, pa.binary()))
        assert [found[number] for number in range(len(values))] == ours.to_pylist()
        for text, (value, schema_id) in zip(ours.to_pylist(), FRAMED, strict=True):
            says = f"the {side} is framed by a schema registry, so it is not JSON alone (schema id {schema_id})"
            assert (text == says) is (schema_id is not None), value


NAMES = ["i", "s", "d", "b", "h", "n", "o", "t", "l", "x", "a", "c", "e", "a b", "ü", "I", "i_2", "z", ""]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-300, 300), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=6),
    st.sampled_from(["NaN", "Infinity", "-INF", "+INF", "INF", "1", "", "true"]),
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.sampled_from(NAMES), child, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), TREES, max_size=5)
PIECES = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\\", b"\n", b" ", b"0", b"-", b"+", b".", b"e", b"NaN", b"Inf",
    b"null", b"\xff", b"\xed\xa0\x80", b"\\ud83d", b"\\u0000", b'"i":1', b"\x00", b"\xc2", b"\xf0\x9f",
]  # fmt: skip


def fitting(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values that the type takes, with nulls."""
    if pa.types.is_struct(kind):
        members = {field.name: fitting(field.type) for field in kind}
        return st.none() | st.fixed_dictionaries({}, optional=members)
    if pa.types.is_list(kind):
        return st.none() | st.lists(fitting(kind.value_type), max_size=3)
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_float64(kind):
        return st.none() | st.floats() | st.integers(-3, 3)
    if pa.types.is_string(kind):
        return st.none() | st.text(max_size=6)
    bound = 1 << (kind.bit_width - 1)
    return st.none() | st.integers(-bound, bound - 1) | st.integers(-2, bound + 2)


@st.composite
def broken(draw: st.DrawFn, objects: st.SearchStrategy[Any]) -> bytes:
    """A text of JSON, in half of the cases with a piece of it replaced."""
    text = json.dumps(
        draw(objects), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1]))
    ).encode(errors="surrogatepass")
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + draw(st.integers(0, 3)) :]
    return text


@st.composite
def batches(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    schema = draw(st.sampled_from(SCHEMAS))
    members = {field.name: fitting(field.type) for field in JsonDecoder(schema, "value").type}
    fit = st.fixed_dictionaries({}, optional=members)
    return schema, draw(st.lists(broken(fit | OBJECTS), min_size=1, max_size=60))


def generated() -> list[tuple[str, list[bytes]]]:
    """Schemas, and values of each in the order of a batch."""
    found = []

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batch=batches(), seed=st.integers(0, 2**32))
    def collect(batch: tuple[str, list[bytes]], seed: int) -> None:
        schema, values = batch
        values = values + [b'{"i":1}', b'{"n":null}'] * 20
        random.Random(seed).shuffle(values)
        found.append((schema, values))

    collect()
    return found


def test_a_batch_has_the_same_records_and_refusals_in_both_engines(spark: SparkSession) -> None:
    """Spark reads every batch of a schema at once, because it judges each value alone."""
    found = generated()
    for schema in SCHEMAS:
        every = [values for named, values in found if named == schema]
        assert every
        at_once = [value for values in every for value in values]
        by_spark_alone = read_by_spark(spark, at_once, schema)
        assert list(map(repr, read_by_readers(spark, at_once, schema))) == list(map(repr, by_spark_alone))
        judge = iter(by_spark_alone)
        for values in every:
            for value, (by_us, error) in zip(values, read_by_us(values, schema), strict=True):
                by_spark = next(judge)
                if error is None or "fraction" not in error:
                    assert repr(by_us) == repr(by_spark), (schema, value)
