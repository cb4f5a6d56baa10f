"""Readers of micro-batches hand over the fields of JSON that a query uses: its results are those of all fields."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sparkapp.dataplane.interface import ALL_COLUMNS, SOURCE_SCHEMA
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job
from sparkapp.model.job.startup import Stopping
from sparkapp.spark.frames.failed.letters_apart import letters_in
from sparkapp.spark.frames.formats.json_columns import JsonReader, columns_to_read, json_column
from sparkapp.spark.frames.records import decode_records, encode_records, letters_of
from sparkapp.spark.tasks.data_source import FORMAT, KafkaSparkDataSource
from tests.support.jobs.plain_job import plain_spec

pytestmark = pytest.mark.spark

SCHEMA = "i INT, s STRING, d DOUBLE, f BOOLEAN, o STRUCT<x: DOUBLE, y: STRING>, l ARRAY<INT>"
ALL = "isdfol"
"""The names of the fields, by their places."""
COLUMN = json_column("value")
FIELDS = ("value.i", "value.s", "value.d", "value.f", "value.o.x", "value.o.y", "get(value.l, 0)")
QUERIES: tuple[tuple[str, str], ...] = (
    ("SELECT key, to_json(struct(value.i, value.s)) AS value FROM source WHERE value.d > 0.5", "isd"),
    ("SELECT value.o.y AS value FROM source WHERE value.o.x IS NOT NULL", "o"),
    ("SELECT get(value.l, 0) AS value FROM source WHERE value IS NOT NULL", "l"),
    ("SELECT to_json(struct(value.s, count(*) AS n)) AS value FROM source GROUP BY value.s", "s"),
    ("SELECT DISTINCT value.i AS value FROM source", "i"),
    ("SELECT upper(v.s) AS value FROM (SELECT value AS v, key FROM source) WHERE v.i > 0", "is"),
    ("SELECT CASE WHEN value.f THEN value.s ELSE value.o.y END AS value FROM source", "fso"),
    ("SELECT value.s AS value FROM source UNION ALL SELECT value.o.y AS value FROM source", "so"),
    ("SELECT CAST(max(value.d) AS STRING) AS value FROM source GROUP BY value.f, key", "df"),
    ("SELECT key AS value FROM source WHERE value IS NOT NULL", "i"),
    # The struct as a whole, or in a way that is not followed.
    ("SELECT value FROM source WHERE value.i > 0", ALL),
    ("SELECT to_json(value) AS value FROM source", ALL),
    ("SELECT to_json(struct(value.*)) AS value FROM source", ALL),
    ("SELECT to_json(first(value)) AS value FROM source GROUP BY value.s", ALL),
    ("SELECT to_json(coalesce(value, value)) AS value FROM source", ALL),
)


def job_of(query: str, policy: OnRecordError) -> Job:
    topic = "dlq" if policy is OnRecordError.DEAD_LETTER else ""
    errors = RecordErrors(policy=policy, dead_letter_topic=topic)
    spec = plain_spec(transform=Transform(sql=query), record_errors=errors)
    spec = replace(spec, source=replace(spec.source, value_format=Format.JSON, value_schema=SCHEMA))
    return Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)


def source_of(spark: SparkSession, job: Job) -> DataFrame:
    """As the engine's query has it, without its start."""
    spark.dataSource.register(KafkaSparkDataSource)
    return spark.readStream.format(FORMAT).options(job=encode_job(job), planner="nowhere").load()


def columns_of(spark: SparkSession, job: Job) -> frozenset[str]:
    return columns_to_read(planned(spark, source_of(spark, job), job), job.spec)


def planned(spark: SparkSession, records: DataFrame, job: Job) -> DataFrame:
    decode_records(records, job, lambda: None).createOrReplaceTempView("source")
    return encode_records(spark.sql(job.spec.transform.sql), job.spec)


def read(spark: SparkSession, batch: pa.RecordBatch, job: Job, columns: frozenset[str]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([JsonReader(job, columns).added(batch)])).coalesce(1)


def rows(spark: SparkSession, batch: pa.RecordBatch, job: Job, columns: frozenset[str]) -> list[str]:
    return sorted(map(repr, planned(spark, read(spark, batch, job, columns), job).collect()))


def letters(spark: SparkSession, batch: pa.RecordBatch, job: Job, columns: frozenset[str]) -> list[dict[str, Any]]:
    found = letters_of(read(spark, batch, job, columns), job, StructType()).collect()
    return [letter for row in found for each in letters_in(bytes(row[0])) for letter in each.to_pylist()]


def a_batch(chance: random.Random, *, bad: bool) -> pa.RecordBatch:
    """JSON of the schema with missing fields and nulls; some of it is left to Spark, and with ``bad`` some is none."""

    def some(*values: Any) -> Any:
        return chance.choice([None, *values])

    values: list[bytes | None] = []
    for _ in range(200):
        fields = {
            "i": some(0, 1, -7), "s": some("a", "ü", ""), "d": some(0.25, 1.5, -0.0), "f": some(True, False),
            "o": some({}, {"x": 2.5, "y": chance.choice("bc")}), "l": some([], [1, 2]), "more": "x",
        }  # fmt: skip
        text = json.dumps({name: each for name, each in fields.items() if chance.random() < 0.8}).encode()
        values.append(chance.choice([text] * 20 + [None, text.replace(b'"', b"'")] + [b"no JSON", b'{"i":"x"}'] * bad))
    found = [
        {"key": chance.choice([b"a", b"b", None]), "value": value, "topic": "t", "partition": 0, "offset": at,
         "timestampType": 0, "timestamp": at, "headers": []}
        for at, value in enumerate(values)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(found, schema=SOURCE_SCHEMA)


def fields(columns: frozenset[str]) -> set[str]:
    return {ALL[int(name.rpartition(".")[2])] for name in fields_of(columns)} or {*ALL}


def test_a_reader_gets_the_fields_that_a_query_uses(spark: SparkSession) -> None:
    for policy in (OnRecordError.SKIP, OnRecordError.FAIL):
        batch = a_batch(random.Random(7), bad=policy is OnRecordError.SKIP)
        for query, expected in QUERIES:
            job = job_of(query, policy)
            columns = columns_of(spark, job)
            assert fields(columns) == {*expected}, (policy, query)
            assert rows(spark, batch, job, columns) == rows(spark, batch, job, columns - fields_of(columns))


@pytest.mark.parametrize(
    "predicate", ["value.s = 'ü' AND value.d > 1", "value.s IS NULL AND value.d IS NULL AND value.i > 0"]
)
def test_letters_that_are_read_apart_end_where_the_stream_ends(spark: SparkSession, predicate: str) -> None:
    batch, job = a_batch(random.Random(7), bad=True), job_of(QUERIES[0][0], OnRecordError.DEAD_LETTER)
    columns = columns_to_read(letters_of(source_of(spark, job), job, StructType()), job.spec)
    assert columns - fields_of(columns) == {*SOURCE_SCHEMA.names, COLUMN}
    assert fields(columns) == {"i"}, "whether the value is null"
    every = letters(spark, batch, job, columns)
    assert every == letters(spark, batch, job, ALL_COLUMNS)

    source = replace(job.spec.source, stopping=Stopping(predicate=predicate))
    job = replace(job, spec=replace(job.spec, source=source))
    columns = columns_to_read(letters_of(source_of(spark, job), job, StructType()), job.spec)
    found = letters(spark, batch, job, columns)
    assert found == letters(spark, batch, job, ALL_COLUMNS)
    assert 0 < len(found) < len(every)


def fields_of(columns: frozenset[str]) -> set[str]:
    return {name for name in columns if name.startswith(f"{COLUMN}.")}


EXPRESSIONS = st.recursive(
    st.sampled_from(FIELDS).map("CAST({} AS STRING)".format),
    lambda of: st.one_of(
        st.builds("concat_ws('-', {}, {})".format, of, of),
        st.builds("CASE WHEN {} IS NULL THEN {} ELSE {} END".format, st.sampled_from([*FIELDS, "value"]), of, of),
        st.builds("coalesce(CAST({} AS STRING), 'none')".format, of),
        st.builds("to_json(struct({} AS a, key))".format, of),
    ),
    max_leaves=3,
)
CONDITIONS = st.just("") | st.builds(" WHERE {} IS NOT NULL".format, st.sampled_from([*FIELDS, "key"]))


def test_results_are_those_of_all_fields(spark: SparkSession) -> None:
    fewer: set[int] = set()

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        query=st.builds("SELECT {} AS value FROM source{}".format, EXPRESSIONS, CONDITIONS),
        seed=st.integers(0, 1 << 30),
    )
    def hold(query: str, seed: int) -> None:
        batch, job = a_batch(random.Random(seed), bad=True), job_of(query, OnRecordError.SKIP)
        columns = columns_of(spark, job)
        fewer.add(len(fields(columns)))
        assert rows(spark, batch, job, columns) == rows(spark, batch, job, columns - fields_of(columns)), query

    hold()
    assert min(fewer) < len(ALL)
