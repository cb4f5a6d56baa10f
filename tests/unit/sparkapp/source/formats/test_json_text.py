"""JSON in the continuous engine: the corpus of Spark's results, alone and among other records."""

from __future__ import annotations

import json
import random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from sparkapp.source.formats.json_text import decoder as module
from sparkapp.source.formats.json_text.decoder import JsonDecoder
from tests.support.formats.json_corpus import CASES, COLUMNS, FRACTIONS, FRAMED, LIMITS


def decoded(*values: bytes | None, schema: str = COLUMNS) -> list[dict[str, Any] | str | None]:
    """Each value's columns that are not null, its error, or None."""
    records, errors = JsonDecoder(schema, "value").decode(pa.array(values, pa.binary()))
    return [
        error or (record if record is None else {name: each for name, each in record.items() if each is not None})
        for record, error in zip(records.to_pylist(), errors.to_pylist(), strict=True)
    ]


def is_same(found: object, expected: dict[str, Any] | None) -> bool:
    return isinstance(found, str) if expected is None else repr(found) == repr(expected)


@pytest.mark.parametrize(("value", "expected"), CASES, ids=str)
def test_a_value_has_the_columns_that_spark_gives(value: bytes, expected: dict[str, Any] | None) -> None:
    (found,) = decoded(value)
    assert is_same(found, expected), found


def test_values_do_not_change_each_other() -> None:
    cases = [*CASES, *((b'{"i":%d}' % number, {"i": number}) for number in range(1000))]
    random.Random(7).shuffle(cases)
    for (value, expected), found in zip(cases, decoded(*(value for value, _ in cases)), strict=True):
        assert is_same(found, expected), (value, found)


@pytest.mark.parametrize(("value", "parses"), LIMITS, ids=range(len(LIMITS)))
def test_the_limits_of_a_value_are_those_of_jackson(value: bytes, parses: bool) -> None:
    before, found, after = decoded(b'{"i":1}', value, b'{"i":2}')
    assert (before, after) == ({"i": 1}, {"i": 2})
    assert isinstance(found, str) is not parses


@pytest.mark.parametrize("value", [value for value, _ in FRACTIONS], ids=str)
def test_a_fraction_as_text_is_an_error_with_a_remedy(value: bytes) -> None:
    (found,) = decoded(value)
    assert isinstance(found, str)
    assert found.endswith("declare DOUBLE, or set spec.engine: MicroBatch")


@pytest.mark.parametrize("word", [b"Inf", b"-NaN"])
@pytest.mark.parametrize("chunk", range(1, 40))
def test_a_word_that_only_arrow_takes_is_found_wherever_it_is(word: bytes, chunk: int) -> None:
    with patch.object(module, "_CHUNK", chunk):
        before, found, after = decoded(b'{"i":1}', b'{"other":[1,%b]}' % word, b'{"i":2}')
    assert (before, after) == ({"i": 1}, {"i": 2})
    assert isinstance(found, str)


def test_nulls_stay_where_they_are() -> None:
    assert decoded() == []
    assert decoded(None) == [None]
    assert decoded(None, b'{"i":1}', None, b"x", b'{"i":2}')[:3] == [None, {"i": 1}, None]
    assert decoded(b'{"i":1}', None, b'{"i":2}') == [{"i": 1}, None, {"i": 2}]


@pytest.mark.parametrize(
    "values",
    [
        (b'{"s":"}', b'{","i":1}', b'{"i":1}{"i":2}'),
        (b'{"t":{}', b'{"i":1}}', b'{"i":3}'),
        (b'{"i":1}\n{"i":2}', b"", b'{"i":3}'),
        (b'{"i":1}{"i":2}', b'{"l":["}', b'{"]}'),
    ],
)
def test_a_value_never_takes_part_of_its_neighbour(values: tuple[bytes, ...]) -> None:
    assert decoded(*values) == [each for value in values for each in decoded(value)]


def test_only_records_that_arrow_refuses_are_read_alone() -> None:
    values = [
        json.dumps({"i": number, "t": {"x": number}}, indent=number % 2 or None).encode() for number in range(5000)
    ]
    values[1234], values[4000] = b'{"i":"text"}', b"{'i':7}"
    with patch.object(module, "read_record", wraps=module.read_record) as read:
        found = decoded(*values)
    assert read.call_count <= 2 * 8
    assert isinstance(found[1234], str)
    assert found[4000] == {"i": 7}
    assert [each for number, each in enumerate(found) if number not in (1234, 4000)] == [
        {"i": number, "t": {"x": number}} for number in range(5000) if number not in (1234, 4000)
    ]


def test_a_large_batch_is_parsed_in_parts() -> None:
    with patch.object(module, "_BYTES_AT_ONCE", 1000), patch.object(module, "read_record") as read:
        assert decoded(*(b'{"i":%d}' % number for number in range(1000))) == [{"i": number} for number in range(1000)]
    read.assert_not_called()


def test_a_part_of_a_larger_array_is_read() -> None:
    values = pa.array([b"no", b'{"i":1}', None, b'{"i":2}'], pa.binary()).slice(1)
    records, errors = JsonDecoder("i INT", "value").decode(values)
    assert (records.to_pylist(), errors.null_count) == ([{"i": 1}, None, {"i": 2}], 3)


@pytest.mark.parametrize(("value", "schema_id"), FRAMED, ids=repr)
def test_a_registrys_frame_is_named_by_the_error(value: bytes, schema_id: int | None) -> None:
    _, errors = JsonDecoder(COLUMNS, "key").decode(pa.array([value], pa.binary()))
    says = f"the key is framed by a schema registry, so it is not JSON alone (schema id {schema_id})"
    assert (errors.to_pylist() == [says]) is (schema_id is not None)
