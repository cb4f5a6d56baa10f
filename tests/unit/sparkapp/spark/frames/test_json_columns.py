"""What a reader of a micro-batch adds to its batches for values in JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.dataplane.interface import ALL_COLUMNS, SOURCE_SCHEMA
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Job
from sparkapp.spark.frames.formats.json_columns import JsonReader, decoded_sides, json_column, source_ddl, with_fields
from tests.support.jobs.plain_job import plain_spec

SPEC = plain_spec()
VALUE = json_column("value")
USED = ALL_COLUMNS | {VALUE}


def job(schema: str = "i INT", **fields: Any) -> Job:
    spec = replace(SPEC, source=replace(SPEC.source, value_format=Format.JSON, value_schema=schema), **fields)
    return Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)


def batch(*values: bytes | None) -> pa.RecordBatch:
    rows = [{"key": b"k", "value": value, "topic": "t", "offset": at} for at, value in enumerate(values)]
    return pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)


def both(found: pa.RecordBatch) -> list[tuple[bytes | None, dict[str, Any] | None]]:
    """Text and decoded value of each record."""
    return list(zip(found.column("value").to_pylist(), found.column(VALUE).to_pylist(), strict=True))


def test_text_stays_where_spark_is_to_parse_it() -> None:
    good = [(None, {"i": number}) for number in range(2 * 64)]
    values = [b'{"i":%d}' % number for number in range(2 * 64)]
    odd = [b"{'i':1}", b"not JSON", b'{"i":"1"}']
    found = both(JsonReader(job(), USED).added(batch(*values, None, *odd)))
    assert found[:64] == good[:64]
    assert found[-4:] == [(None, None), *((value, None) for value in odd)]


def test_a_dead_letter_of_the_transform_needs_all_text() -> None:
    errors = RecordErrors(transform_policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dlq")
    reader = JsonReader(job(record_errors=errors, transform=Transform(arrow=ArrowTransform(function="a:b"))), USED)
    assert both(reader.added(batch(b'{"i":1}', None))) == [(b'{"i":1}', {"i": 1}), (None, None)]


@pytest.mark.parametrize(
    ("policy", "key_format", "key_schema", "text"),
    [
        (OnRecordError.DEAD_LETTER, Format.JSON, "k INT", b'{"i":1}'),
        (OnRecordError.DEAD_LETTER, Format.AVRO, '"string"', b'{"i":1}'),
        (OnRecordError.DEAD_LETTER, Format.STRING, "", None),
        (OnRecordError.SKIP, Format.JSON, "k INT", None),
    ],
)
def test_a_dead_letter_of_one_side_needs_the_text_of_the_other(
    policy: OnRecordError, key_format: Format, key_schema: str, text: bytes | None
) -> None:
    errors = RecordErrors(policy=policy, dead_letter_topic="dlq" if policy is OnRecordError.DEAD_LETTER else "")
    of = job(record_errors=errors)
    source = replace(of.spec.source, key_format=key_format, key_schema=key_schema)
    reader = JsonReader(replace(of, spec=replace(of.spec, source=source)), USED | {json_column("key")})
    found = reader.added(batch(b'{"i":1}'))
    assert both(found) == [(text, {"i": 1})]
    assert found.column("key").to_pylist() == [b"k"]


def test_text_of_a_slice_stays_where_spark_is_to_parse_it() -> None:
    values = [b'{"i":%d}' % number for number in range(3 * 64)]
    values[100] = b"not JSON"
    given = batch(*values).slice(1, 128)
    found = JsonReader(job(), USED).added(given)
    found.validate(full=True)
    left = [text for text, decoded in both(found) if decoded is None]
    assert left == [text for text, _ in both(found) if text is not None]
    assert b"not JSON" in left
    assert len(left) == 64


def test_a_side_that_the_query_does_not_use_is_not_decoded() -> None:
    assert both(JsonReader(job(), ALL_COLUMNS).added(batch(b'{"i":1}'))) == [(b'{"i":1}', None)]


def test_fields_that_the_query_does_not_use_are_decoded_and_null() -> None:
    schema = "i INT, s STRING, o STRUCT<x: INT>"
    values = [b'{"i":1,"s":"a","o":{"x":2}}', None, b'{"i":"bad"}', b'{"o":{}}', b'{"s":7.5,"i":3}']
    of_query = with_fields(USED, job(schema).spec, {VALUE: frozenset({0, 2})}.__getitem__)
    assert of_query == USED | {f"{VALUE}.0", f"{VALUE}.2"}
    found = both(JsonReader(job(schema), of_query).added(batch(*values)))
    everything = both(JsonReader(job(schema), USED).added(batch(*values)))
    assert found == [(text, value and value | {"s": None}) for text, value in everything]


def test_a_side_is_used_as_a_whole_where_its_fields_are_not_known() -> None:
    assert with_fields(USED, job().spec, {VALUE: None}.__getitem__) == USED
    assert with_fields(ALL_COLUMNS, job().spec, {}.__getitem__) == ALL_COLUMNS


def test_a_side_that_is_only_compared_with_null_has_its_first_field() -> None:
    schema = "i INT, s STRING"
    of_query = with_fields(USED, job(schema).spec, {VALUE: frozenset[int]()}.__getitem__)
    found = both(JsonReader(job(schema), of_query).added(batch(b'{"i":1,"s":"a"}', None, b'{"s":"b"}')))
    assert found == [(None, {"i": 1, "s": None}), (None, None), (None, {"i": None, "s": None})]


def test_a_reader_leaves_a_range_to_spark_where_it_decodes_little_of_it() -> None:
    reader = JsonReader(job(), USED)
    assert both(reader.added(batch(*[b"{'i':1}"] * 10))) == [(b"{'i':1}", None)] * 10
    assert both(reader.added(batch(b'{"i":1}'))) == [(b'{"i":1}', None)]
    assert both(JsonReader(job(), USED).added(batch(b'{"i":1}'))) == [(None, {"i": 1})]


@pytest.mark.parametrize(
    "schema", ["at TIMESTAMP", "price DECIMAL(9, 2)", "m MAP<STRING, INT>", "f FLOAT", "i INT NOT NULL"]
)
def test_types_that_spark_alone_reads_are_left_to_it(schema: str) -> None:
    assert decoded_sides(job(schema).spec) == {}
    assert source_ddl(job(schema).spec) == ""
    given = batch(b"{}")
    assert JsonReader(job(schema), USED).added(given) is given


def test_the_columns_of_both_sides_have_their_ddl() -> None:
    source = replace(job("i INT").spec.source, key_format=Format.JSON, key_schema="s STRING")
    spec = replace(SPEC, source=source)
    assert source_ddl(spec) == ", _json_key STRUCT<s STRING>, _json_value STRUCT<i INT>"
