"""Which queries are narrow, and what they mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkapp.model.encoding.json_columns import JsonType
from sparkapp.model.encoding.json_columns import Kind as Type
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.narrow_sql.plan import (
    STRING,
    Among,
    AsJson,
    AsText,
    Compared,
    Field,
    IsNull,
    Joined,
    NarrowQuery,
    Negated,
    Operator,
    Plain,
    Struct,
)
from sparkapp.model.job.rules.narrow_sql.query import narrow_query
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.transform import Transform
from tests.support.jobs.plain_job import plain_spec

DOUBLE, BIGINT = JsonType(Type.DOUBLE), JsonType(Type.BIGINT)
AMOUNT = Field("value", (1,), DOUBLE)
ID = Field("value", (0,), BIGINT)
KEY = Field("key", (), Plain.BINARY)
SINK = Sink(topic="out", transactional_id_prefix="p")


def narrow(query: str, **fields: Any) -> NarrowQuery:
    spec = plain_spec(transform=Transform(sql=query), **fields)
    schema = "id BIGINT, amount DOUBLE, s STRING, is_new BOOLEAN, o STRUCT<x: DOUBLE, y: STRING>, l ARRAY<INT>, n INT"
    source = replace(spec.source, value_format=Format.JSON, value_schema=schema)
    return narrow_query(replace(spec, source=source))


def test_a_query_of_the_bench_is_narrow() -> None:
    found = narrow("SELECT to_json(struct(value.id, value.amount AS a)) AS value FROM source WHERE value.amount > 50.0")
    assert found.outputs == (("value", AsJson(Struct((("id", ID), ("a", AMOUNT))))),)
    assert found.condition == Compared(Operator.GREATER, AMOUNT, 50.0)
    assert found.columns == {"value"}


def test_key_and_value_become_text_or_bytes() -> None:
    assert narrow("SELECT key, value FROM source").outputs == (
        ("key", KEY),
        ("value", AsJson(Field("value", (), narrow("SELECT value FROM source").outputs[0][1].of.type))),
    )
    assert narrow("SELECT struct(value.id) AS value FROM source").outputs == (("value", AsJson(Struct((("id", ID),)))),)
    assert narrow("SELECT offset AS value FROM source").outputs == (("value", AsText(Field("offset", (), BIGINT))),)
    assert narrow("SELECT value.s value, cast(key as string) AS key FROM `source` ;").outputs == (
        ("key", AsText(KEY)),
        ("value", Field("value", (2,), STRING)),
    )


def test_a_sink_with_a_format_gets_every_column() -> None:
    format_ = SinkFormat(value=SinkEncoding.JSON)
    query = "SELECT value.id, struct(value.amount, key) AS pair FROM source"
    pair = Struct((("amount", AMOUNT), ("key", KEY)))
    assert narrow(query, sink=replace(SINK, format=format_)).outputs == (("id", ID), ("pair", pair))


def test_the_sink_may_take_topic_and_partition_from_columns() -> None:
    sink = replace(SINK, topic_from=TopicFrom.COLUMN, partitioner=Partitioner.SOURCE_PARTITION)
    assert narrow("SELECT * FROM source", sink=sink).columns >= {"topic", "partition"}
    with pytest.raises(InvalidArgument, match="without a column partition"):
        narrow("SELECT value, topic FROM source", sink=sink)
    with pytest.raises(InvalidArgument, match="with topic as BIGINT"):
        narrow("SELECT value, partition, offset AS topic FROM source", sink=sink)


def test_conditions_have_the_precedence_of_sql() -> None:
    found = narrow("SELECT key AS value FROM source WHERE NOT value.id = 1 AND 2 < value.id OR value.s IS NOT NULL")
    first, more = Compared(Operator.EQUAL, ID, 1), Compared(Operator.GREATER, ID, 2)
    known = Negated(IsNull(Field("value", (2,), STRING)))
    assert found.condition == Joined(False, (Joined(True, (Negated(first), more)), known))


def test_a_literal_has_the_type_of_its_column() -> None:
    found = narrow("SELECT key AS value FROM source WHERE value.amount IN (1, -2.5) AND value.id BETWEEN -1 AND 7")
    assert found.condition == Joined(
        True,
        (
            Among(AMOUNT, (1.0, -2.5)),
            Joined(True, (Compared(Operator.GREATER_OR_EQUAL, ID, -1), Compared(Operator.LESS_OR_EQUAL, ID, 7))),
        ),
    )


def test_a_single_literal_is_compared() -> None:
    found = narrow("SELECT key AS value FROM source WHERE value.id NOT IN (3)")
    assert found.condition == Negated(Compared(Operator.EQUAL, ID, 3))


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        ("key AS value FROM source LIMIT 3", "with LIMIT"),
        ("key AS value FROM source s", "with s"),
        ("key AS value FROM other", "with FROM other"),
        ("DISTINCT key AS value FROM source", "the name 'DISTINCT'"),
        ("count(*) AS value FROM source", "count()"),
        ("upper(value.s) AS value FROM source", "upper()"),
        ("value.id + 1 AS value FROM source", "'+'"),
        ("key AS value, value.id DIV FROM source", "with DIV"),
        ("key AS value, value.s COLLATE FROM source", "with COLLATE"),
        ("key AS value, value.s like FROM source", "with like"),
        ("value.Id AS value FROM source", "the name 'value.Id'"),
        ("Value AS value FROM source", "the name 'Value'"),
        ("value.l.x AS value FROM source", "the name 'l.x'"),
        ("value.amount AS value FROM source", "with value as DOUBLE"),
        ("timestamp AS value FROM source", "with value as TIMESTAMP"),
        ("CAST(value.amount AS STRING) AS value FROM source", "CAST of DOUBLE"),
        ("CAST(value.id AS INT) AS value FROM source", "with INT"),
        ("to_json(struct(value.o.x, value.o.x)) AS value FROM source", "a name that is there twice"),
        ("key AS value, value.s AS VALUE FROM source", "a name that is there twice"),
        ("to_json(struct(key)) FROM source", "a function without AS"),
        ("value, struct(key) AS timestamp FROM source", "timestamp as STRUCT"),
        ("to_json(value.s) AS value FROM source", "to_json of a column that is no struct"),
        ("key FROM source", "without a column value"),
        ("value, value.s AS headers FROM source", "headers as STRING"),
        ("value, offset AS timestamp FROM source", "timestamp as BIGINT"),
        ("'x' AS value FROM source", "with x"),
        ("key AS value FROM source WHERE value.id = '1'", "a comparison of BIGINT with '1'"),
        ("key AS value FROM source WHERE value.id > 1.5", "a comparison of BIGINT with 1.5"),
        ("key AS value FROM source WHERE value.id = 9223372036854775808", "a comparison of BIGINT with 922"),
        ("key AS value FROM source WHERE value.id = value.n", "a comparison of BIGINT with INT"),
        ("key AS value FROM source WHERE value.is_new > FALSE", "a comparison of BOOLEAN with False"),
        ("key AS value FROM source WHERE key = 'a'", "a comparison of BINARY with 'a'"),
        ("key AS value FROM source WHERE timestamp = timestamp", "a comparison of TIMESTAMP with TIMESTAMP"),
        ("key AS value FROM source WHERE 1 = 1", "a comparison of two literals"),
        ("key AS value FROM source WHERE TRUE", "a condition without a column"),
        ("key AS value FROM source WHERE value.id", "a condition that is no comparison"),
        ("key AS value FROM source WHERE value.s LIKE 'a%'", "with LIKE"),
        ("key AS value FROM source WHERE value.s = 'a\\\\n'", "with \"'a\\\\\\\\n'\""),
        ("key AS value FROM source WHERE value.s = 'a''b'", "with"),
        ('key AS value FROM source WHERE value.s = "a"', "with '\"a\"'"),
        ("key AS value FROM source WHERE value.amount > 1e3", "with '1e3'"),
        ("key AS value FROM source WHERE value.amount > 50D", "with '50D'"),
        ("key AS value FROM source WHERE value.amount > - key", "with -key"),
        ("key AS value FROM source WHERE value.s = '${x}'", "with"),
        ("key AS value FROM source -- all", "with '--'"),
        ("key AS value FROM source\x85", "with '\\x85'"),
        ("key AS value FROM source WHERE value.s <=> 'a'", "with ="),
        ("key AS value FROM source WHERE (value.id = 1", "that ends early"),
        ("key AS value FROM source WHERE value.id IN (value.id)", "IN of columns"),
        ("", "that ends early"),
    ],
)  # fmt: skip
def test_all_else_is_left_to_spark(rest: str, what: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        narrow(f"SELECT {rest}")
    assert what in refused.value.message


@pytest.mark.parametrize("rest", ["{}", "value.{}", "value FROM {}", "value FROM source WHERE value.id = '{}'"])
def test_the_message_has_a_bound(rest: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        narrow(f"SELECT {rest}".format("a" * 30_000))
    assert len(refused.value.message) < 200


def test_nested_conditions_have_a_bound() -> None:
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        narrow(f"SELECT key AS value FROM source WHERE {'(' * 60}value.id = 1{')' * 60}")


def test_what_a_transform_fails_for_is_found_by_spark_alone() -> None:
    errors = RecordErrors(transform_policy=OnRecordError.SKIP)
    with pytest.raises(InvalidArgument, match="with onTransformError"):
        narrow("SELECT key AS value FROM source", record_errors=errors)


def test_the_types_of_a_registry_are_not_known() -> None:
    spec = plain_spec(transform=Transform(sql="SELECT key AS value FROM source"))
    with pytest.raises(InvalidArgument, match=r"with source\.format\.value avro"):
        narrow_query(replace(spec, source=replace(spec.source, value_format=Format.AVRO)))
