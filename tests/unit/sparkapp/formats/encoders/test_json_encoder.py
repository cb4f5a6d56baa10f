"""JSON of Arrow columns by the extension; tests/integration/formats compares it with Spark's ``to_json``."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkapp.dataplane.native import _kafka_arrow
from sparkapp.formats.encoders.json_plan import json_plan
from sparkapp.formats.encoders.plan import Unfit
from sparkapp.source.formats.json_text.java_text import decoded


def encoded(values: pa.Array[Any]) -> list[str | None]:
    encoder = _kafka_arrow.Encoder("json", json_plan(values.type, ""), b"")
    values._export_to_c(encoder.slot())
    found = pa.Array._import_from_c(encoder.encode(), pa.large_binary())
    found.validate(full=True)
    return [None if value is None else value.decode() for value in found.to_pylist()]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-(2**63), pa.int64(), "-9223372036854775808"),
        (True, pa.bool_(), "true"),
        (0.0, pa.float64(), "0.0"),
        (-0.0, pa.float64(), "-0.0"),
        (1.0, pa.float64(), "1.0"),
        (100.5, pa.float64(), "100.5"),
        (9999999.0, pa.float64(), "9999999.0"),
        (1e7, pa.float64(), "1.0E7"),
        (0.001, pa.float64(), "0.001"),
        (0.00099, pa.float64(), "9.9E-4"),
        (1.5e-300, pa.float64(), "1.5E-300"),
        (1234567.890123, pa.float64(), "1234567.890123"),
        (5e-324, pa.float64(), "5.0E-324"),
        (math.nan, pa.float64(), '"NaN"'),
        (-math.inf, pa.float32(), '"-Infinity"'),
        (0.1, pa.float32(), "0.1"),
        (16777216.0, pa.float32(), "1.6777216E7"),
        (Decimal("0.0000001"), pa.decimal128(9, 7), "1E-7"),
        (Decimal("-12.30"), pa.decimal128(9, 2), "-12.30"),
        (Decimal("0.000001"), pa.decimal128(9, 6), "0.000001"),
        (Decimal("-" + "9" * 38), pa.decimal128(38, 0), "-" + "9" * 38),
        (date(1, 1, 1), pa.date32(), '"0001-01-01"'),
        (date(2000, 2, 29), pa.date32(), '"2000-02-29"'),
        (3_000_000, pa.date32(), '"+10183-09-21"'),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), pa.timestamp("us", "UTC"), '"1969-12-31T23:59:59.999Z"'),
        (1, pa.timestamp("s", "Asia/Tokyo"), '"1970-01-01T00:00:01.000Z"'),
        (1_500_000_000, pa.timestamp("ns"), '"1970-01-01T00:00:01.500"'),
        (b"", pa.binary(), '""'),
        (b"a", pa.large_binary(), '"YQ=="'),
        (b"ab\xff", pa.binary(3), '"YWL/"'),
        ('"\\/\b\f\n\r\t\x00\x1f\x7fü😀', pa.string(), '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001F\x7fü😀"'),
        ([1, None], pa.list_(pa.int8()), "[1,null]"),
        ([], pa.large_list(pa.int8()), "[]"),
        ([("a", 1), ("b", None)], pa.map_(pa.string(), pa.int64()), '{"a":1,"b":null}'),
        ({"a": None, "b": {"c": None}, 'q"': 1}, None, '{"b":{},"q\\"":1}'),
    ],
)  # fmt: skip
def test_the_text_of_a_value(value: Any, kind: pa.DataType | None, text: str) -> None:
    if isinstance(value, int) and kind is not None and pa.types.is_date(kind):
        values = pa.array([value], pa.int32()).cast(kind)
    else:
        values = pa.array([value], kind)
    assert encoded(values) == [text]


@settings(max_examples=500, deadline=None)
@given(number=st.floats(allow_nan=False, allow_infinity=False) | st.decimals(-(10**8), 10**8, places=4).map(float))
def test_a_number_is_read_as_itself_and_has_no_more_digits_than_needed(number: float) -> None:
    (text,) = encoded(pa.array([number]))
    assert text is not None
    assert math.copysign(1, float(text)) == math.copysign(1, number)
    assert float(text) == number
    assert Decimal(text) == Decimal(repr(number))


@settings(max_examples=500, deadline=None)
@given(number=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_of_32_bits_has_no_more_digits_than_needed(number: float) -> None:
    (text,) = encoded(pa.array([number], pa.float32()))
    assert text is not None
    assert struct.pack("<f", float(text)) == struct.pack("<f", number)
    assert Decimal(text) == Decimal(np.format_float_scientific(np.float32(number)))


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=6),
    lambda inner: st.fixed_dictionaries({"a": inner, "ü": inner}),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(row=TREES, before=st.integers(0, 2))
def test_a_reader_gets_what_is_not_null(row: Any, before: int) -> None:
    def without_nulls(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
        return value

    values = pa.array([row] * (before + 1)).slice(before)
    (text,) = encoded(values)
    assert (None if text is None else json.loads(text)) == without_nulls(row)


def test_text_that_is_no_utf_8_is_made_valid() -> None:
    assert encoded(pa.array([b"a\xff\x01"], pa.binary()).view(pa.string())) == ['"a\ufffd\\u0001"']


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from([b"a", *(bytes([byte]) for byte in b"\x80\x90\xa0\xbf\xc0\xc3\xe0\xe2\xed\xf0\xf4\xf5")])
    )
)
def test_a_malformed_sequence_is_replaced_as_often_as_in_java(parts: list[bytes]) -> None:
    text = b"".join(parts)
    assert encoded(pa.array([text], pa.binary()).view(pa.string())) == [f'"{decoded(text)}"']


def test_names_have_the_escapes_of_values() -> None:
    text = "".join(map(chr, range(0x20))) + '"\\\x7f\u2028\\u001f😀'
    (found,) = encoded(pa.array([{text: text}]))
    name, value = found[1:-1].split(":") if found else ("", "")
    assert name == value
    assert json.loads(value) == text


def test_slices_of_records_lists_and_maps_are_read_where_they_begin() -> None:
    rows = [{"l": [{"n": index}], "m": [(str(index), index)], "b": index % 2 == 0} for index in range(20)]
    kind = pa.struct(
        [("l", pa.list_(pa.struct([("n", pa.int64())]))), ("m", pa.map_(pa.string(), pa.int64())), ("b", pa.bool_())]
    )
    found = encoded(pa.array(rows, kind).slice(9, 2))
    assert found == ['{"l":[{"n":9}],"m":{"9":9},"b":false}', '{"l":[{"n":10}],"m":{"10":10},"b":true}']


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (pa.struct([("a", pa.map_(pa.int32(), pa.int32()))]), r"column a is MAP<INT, INT>, and JSON has texts as keys"),
        (pa.struct([("a", pa.duration("s"))]), r"column a is duration\[s\], which JSON cannot have"),
        (pa.list_(pa.time64("us")), r"column \[\] is time64"),
        (pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))]), "column a is dictionary"),
    ],
)
def test_a_type_that_json_cannot_have_is_named(kind: pa.DataType, says: str) -> None:
    with pytest.raises(Unfit, match=says) as caught:
        json_plan(kind, "")
    assert "AS STRING)" in caught.value.remedy


def test_a_plan_and_an_array_that_do_not_belong_together_are_refused() -> None:
    encoder = _kafka_arrow.Encoder("json", json_plan(pa.struct([("a", pa.int64()), ("b", pa.int64())]), ""), b"")
    with pytest.raises(ValueError, match="not of the plan's type"):
        encoder.encode()
    pa.array([{"a": 1}])._export_to_c(encoder.slot())
    with pytest.raises(ValueError, match="not of the plan's type"):
        encoder.encode()
    with pytest.raises(ValueError, match="a plan has no nothing"):
        _kafka_arrow.Encoder("json", ("nothing", "int8", 0, 1, -1, -1, b"", "", ()), b"")
    with pytest.raises(ValueError, match="no such format"):
        _kafka_arrow.Encoder("xml", ("integer", "int8", 0, 1, -1, -1, b"", "", ()), b"")
