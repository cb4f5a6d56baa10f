"""A narrow query has the same records in both engines, bit by bit: Spark is the judge."""

from __future__ import annotations

import json
import math
import random
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.formats.encoders.record_encoder import json_texts
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.narrow_sql.query import narrow_query
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job
from sparkapp.spark.frames.batch_transform import transform_of
from sparkapp.spark.frames.records import decode_records, encode_records
from sparkapp.spark.tasks.data_source import SOURCE_DDL
from sparkapp.spark.tasks.record_decoder import RecordDecoder
from tests.support.jobs.plain_job import plain_spec

pytestmark = pytest.mark.spark

SCHEMA = (
    "i INT, b BIGINT, t TINYINT, d DOUBLE, e DOUBLE, s STRING, f BOOLEAN, l ARRAY<STRUCT<x: DOUBLE>>,"
    " o STRUCT<x: DOUBLE, y: STRING, z: STRUCT<n: BIGINT>>, `a b` STRING"
)
ROWS = 300
INTEGERS, DOUBLES, TEXTS = ("i", "b", "t", "o.z.n"), ("d", "e", "o.x"), ("s", "o.y", "`a b`")
NAMES = [f"value.{name}" for name in (*INTEGERS, *DOUBLES, *TEXTS, "f", "l", "o", "o.z")]
WORDS = ["", "a", "ab", "b", "ü", "'", '"', "\\", "\n", "\u0001", "\U0001f600", "Z"]
NOT_UTF_8 = [b"\xff", b"\xe2\x82", b"\xf0\x9f\x98a", b"\xed\xa0\x80"]
NUMBERS = [0, 1, -1, 2, 127, -128, 2**31 - 1, -(2**63), 2**63 - 1, 2**53 + 1]
FRACTIONS = [0.0, -0.0, 0.5, 1.0, -1.5, 3.0, 1e22, 2e23, 1e-3, 9999999.0, 1e7, 5e-324, math.inf, -math.inf, math.nan]


def job_of(query: str, **fields: Any) -> Job:
    spec = plain_spec()
    source = replace(spec.source, value_format=Format.JSON, value_schema=SCHEMA, key_format=Format.STRING)
    skips = RecordErrors(policy=OnRecordError.SKIP)
    spec = replace(spec, **{"source": source, "transform": Transform(sql=query), "record_errors": skips, **fields})
    return Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)


def a_double(chance: random.Random) -> float:
    some = struct.unpack("<d", chance.randbytes(8))[0]
    return chance.choice([*FRACTIONS, some, chance.uniform(-1, 1) * 10 ** chance.randrange(-5, 20), chance.random()])


def a_value(chance: random.Random) -> bytes | None:
    """JSON of the schema. Some fields are missing, some values are null, and a few are no JSON."""

    def one_of(*values: Any) -> Any:
        return chance.choice([None, *values])

    fields = {
        "i": one_of(*NUMBERS[:7]), "b": one_of(*NUMBERS), "t": one_of(*NUMBERS[:6]), "s": one_of(*WORDS),
        "d": one_of(a_double(chance), a_double(chance)), "e": one_of(a_double(chance), chance.choice(FRACTIONS)),
        "f": one_of(True, False), "l": one_of([], [None, {"x": a_double(chance)}], [{}]), "a b": one_of(*WORDS),
        "o": one_of({}, {"x": a_double(chance), "y": one_of(*WORDS), "z": one_of({}, {"n": one_of(*NUMBERS)})}),
    }  # fmt: skip
    text = json.dumps({name: value for name, value in fields.items() if chance.random() < 0.9}).encode()
    return chance.choice([text] * 20 + [None, b"no JSON", b'{"i":1.5}'])


def a_batch(seed: int) -> pa.RecordBatch:
    chance = random.Random(seed)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "key": chance.choice([None, *(word.encode() for word in WORDS), *NOT_UTF_8]), "value": a_value(chance),
            "topic": chance.choice(["a", "b"]), "partition": chance.randrange(3), "offset": at, "timestampType": 0,
            "timestamp": since + timedelta(microseconds=at * 1500),
            "headers": chance.choice([[], [{"key": "h", "value": b"x"}]]),
        }
        for at in range(ROWS)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)


def as_records(batch: Any) -> list[dict[str, Any]]:
    """Texts as bytes, which need not be UTF-8, and no headers as an empty list."""
    columns = {
        name: batch.column(name).cast(
            pa.binary() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind
        )
        for name, kind in zip(batch.schema.names, batch.schema.types, strict=True)
    }
    rows = pa.table(columns).to_pylist()
    return [row | {"headers": row.get("headers") or []} for row in rows]


def by_spark(spark: SparkSession, frame: DataFrame, job: Job) -> list[dict[str, Any]]:
    decode_records(frame, job, lambda: None).createOrReplaceTempView("source")
    return as_records(encode_records(spark.sql(job.spec.transform.sql), job.spec).toArrow())


def by_us(batch: pa.RecordBatch, job: Job) -> list[dict[str, Any]]:
    decoder, transform = RecordDecoder(job), transform_of(job.spec)
    needed = transform.source_columns | decoder.source_columns
    read = [
        batch.column(field.name) if field.name in needed else pa.nulls(batch.num_rows, field.type)
        for field in SOURCE_SCHEMA
    ]
    given = pa.RecordBatch.from_arrays(read, schema=SOURCE_SCHEMA)
    halves = [given.slice(0, ROWS // 2), given.slice(ROWS // 2)]
    return [row for part in transform.map(decoder.decode(iter(halves))) for row in as_records(part)]


def frame_of(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    rows = [tuple(row[name] for name in SOURCE_SCHEMA.names) for row in batch.to_pylist()]
    return spark.createDataFrame(rows, SOURCE_DDL).coalesce(1)


def number(names: tuple[str, ...], literals: list[str]) -> st.SearchStrategy[str]:
    column, literal = st.sampled_from([f"value.{name}" for name in names]), st.sampled_from(literals)
    operator = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.builds("{} {} {}".format, column, operator, literal),
        st.builds("{} {} {}".format, literal, operator, column),
        # Of more than ten literals Spark makes a set.
        st.builds(
            "{} {} IN ({})".format,
            column,
            st.sampled_from(["", "NOT"]),
            st.lists(literal, min_size=1, max_size=15).map(", ".join),
        ),
        st.builds("{} {} BETWEEN {} AND {}".format, column, st.sampled_from(["", "NOT"]), literal, literal),
    )


COMPARISONS = st.one_of(
    number(INTEGERS, ["0", "1", "-1", "127", "2147483648", "-9223372036854775808", "9007199254740993"]),
    number(DOUBLES, ["0", "-0.0", "0.5", "1", "3.0", "-1.5", "10000000000000000000000.0", "0.1", "9007199254740993"]),
    number(TEXTS, ["''", "'a'", "'ü'", "'Z'", "'b'", "'😀'"]),
    number(TEXTS[:1], ["CAST(value.o.z.n AS STRING)", "CAST(partition AS STRING)", "value.o.y", "key", "topic"]).filter(
        lambda text: "IN (" not in text
    ),
    st.builds("value.d {} value.e".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="])),
    st.builds("{} IS {} NULL".format, st.sampled_from([*NAMES, "value", "key"]), st.sampled_from(["", "NOT"])),
    st.sampled_from(["value.f", "value.f = TRUE", "value.f <> false", "topic = 'a'", "partition > 0", "offset < 200"]),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda of: st.one_of(
        st.builds("({} AND {})".format, of, of),
        st.builds("{} OR {}".format, of, of),
        st.builds("NOT ({})".format, of),
        st.builds("NOT {}".format, COMPARISONS),
    ),
    max_leaves=5,
)
VALUES = st.one_of(
    st.sampled_from(
        ["value", "to_json(value) AS value", "value.s AS value", "value.b AS value", "value.f AS value",
         "value.l value", "value.o.z AS value", "CAST(value.t AS STRING) AS value", "topic AS value",
         "CAST(key AS STRING) AS value"]
    ),
    st.lists(st.sampled_from(["key", "offset", "timestamp", "headers", "CAST(value.i AS STRING) AS `ü\"`", *NAMES]),
             min_size=1, max_size=6, unique_by=lambda name: name.split(".")[-1])
    .flatmap(lambda names: st.sampled_from([f"to_json(struct({', '.join(names)})) AS value",
                                            f"struct({', '.join(names)}) AS value"])),
)  # fmt: skip
OTHERS = st.lists(
    st.sampled_from(["key", "headers", "timestamp", "value.d AS other", "offset"]), unique=True, max_size=4
).map(lambda names: "".join(f", {name}" for name in names))
QUERIES = st.builds(
    "SELECT {}{} FROM source{}".format, VALUES, OTHERS, st.just("") | CONDITIONS.map(lambda text: f" WHERE {text}")
)


def generated() -> list[str]:
    found = ["SELECT * FROM source", "select KEY, value from SOURCE where topic = 'b';".replace("KEY", "key")]

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(query=QUERIES)
    def collect(query: str) -> None:
        found.append(query)

    collect()
    return list(dict.fromkeys(found))


def test_every_query_has_the_records_of_spark(spark: SparkSession) -> None:
    batch = a_batch(random.randrange(1 << 32))
    frame = frame_of(spark, batch).cache()
    kept = 0
    for query in generated():
        job = job_of(query)
        narrow_query(job.spec)
        expected, found = by_spark(spark, frame, job), by_us(batch, job)
        assert found == expected, query
        kept += len(found)
    assert kept > ROWS


def test_numbers_of_json_have_the_digits_of_java(spark: SparkSession) -> None:
    chance = random.Random(11)
    doubles = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(50_000)]
    doubles += [chance.uniform(-1, 1) * 10 ** chance.randrange(-12, 24) for _ in range(50_000)]
    doubles += [chance.randrange(1 << chance.randrange(1, 64)) / 10 ** chance.randrange(8) for _ in range(50_000)]
    doubles += [chance.choice((1, -1)) * math.ldexp(1, exponent) for exponent in range(-1074, 1024)]
    doubles += [float(f"{digits}e{exponent}") for exponent in range(-323, 308) for digits in (1, 2, 3.7, 8.41, 9)]
    table = pa.table({"d": pa.array(doubles, pa.float64())})
    frame = spark.createDataFrame(table).coalesce(1)
    judge = frame.select(f.to_json(f.struct("d")).alias("text")).toArrow().column("text").to_pylist()
    values = pa.StructArray.from_arrays([table.column("d").combine_chunks()], names=["d"])
    ours = json_texts(values.type)(values).to_pylist()
    different = [(a, b) for a, b in zip(ours, judge, strict=True) if a != b]
    assert not different, (len(different), different[:10])
