"""Avro of Arrow columns by the extension, byte by byte as fastavro writes it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import count
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkapp.dataplane.native import _kafka_arrow
from sparkapp.formats.encoders.avro_plan import avro_plan
from sparkapp.formats.encoders.plan import Unfit
from sparkapp.model.errors import SchemaUnusable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encoded(schema: Any, values: pa.Array[Any], prefix: bytes = b"") -> list[bytes | None]:
    encoder = _kafka_arrow.Encoder("avro", avro_plan(schema, values.type, "", "the schema"), prefix)
    values._export_to_c(encoder.slot())
    found = pa.Array._import_from_c(encoder.encode(), pa.large_binary())
    found.validate(full=True)
    answer: list[bytes | None] = found.to_pylist()
    return answer


def by_fastavro(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, {}), value)
    return out.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


class Pair(NamedTuple):
    """A type in Avro, its column, and values of both."""

    avro: Any
    arrow: pa.DataType
    values: st.SearchStrategy[Any]


NUMBERS = count()
LEAVES: list[Pair] = [
    Pair("boolean", pa.bool_(), st.booleans()),
    Pair("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    Pair("int", pa.int8(), st.integers(-128, 127)),
    Pair("int", pa.uint16(), st.integers(0, 2**16 - 1)),
    Pair("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    Pair("long", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    Pair("long", pa.uint64(), st.integers(0, 2**63 - 1)),
    Pair("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    Pair("double", pa.float64(), st.floats(allow_nan=False)),
    Pair("double", pa.float32(), st.floats(width=32, allow_nan=False)),
    Pair("string", pa.string(), st.text(max_size=9)),
    Pair("string", pa.large_string(), st.text(max_size=9)),
    Pair("bytes", pa.binary(), st.binary(max_size=9)),
    Pair("bytes", pa.large_binary(), st.binary(max_size=9)),
    Pair("bytes", pa.binary(3), st.binary(min_size=3, max_size=3)),
    Pair({"type": "int", "logicalType": "date"}, pa.date32(), st.dates()),
    Pair(
        {"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC"),
        st.integers(-(10**15), 10**15).map(lambda micros: EPOCH + timedelta(microseconds=micros)),
    ),
    Pair(
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}, pa.decimal128(38, 3),
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**34), max_value=10**34),
    ),
]  # fmt: skip


@st.composite
def named(draw: st.DrawFn) -> Pair:
    name = f"N{next(NUMBERS)}"
    kind = draw(st.sampled_from(["enum", "fixed", "decimal"]))
    if kind == "enum":
        symbols = ["A", "BB", "C_1"]
        return Pair({"type": "enum", "name": name, "symbols": symbols}, pa.string(), st.sampled_from(symbols))
    size = draw(st.integers(5, 16))
    if kind == "fixed":
        arrow = draw(st.sampled_from([pa.binary(), pa.binary(size), pa.large_binary()]))
        return Pair({"type": "fixed", "name": name, "size": size}, arrow, st.binary(min_size=size, max_size=size))
    avro = {"type": "fixed", "name": name, "size": size, "logicalType": "decimal", "precision": 9, "scale": 2}
    limit = 9_999_999
    return Pair(avro, pa.decimal128(9, 2), st.decimals(-limit, limit, places=2, allow_nan=False))


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> Pair:
    shape = draw(st.sampled_from(["leaf", "named", "nullable", "array", "map", "record"][: 6 if depth else 2]))
    if shape == "leaf":
        return draw(st.sampled_from(LEAVES))
    if shape == "named":
        return draw(named())
    if shape == "record":
        fields = [draw(pairs(depth - 1)) for _ in range(draw(st.integers(1, 4)))]
        names = [f"f{index}" for index in range(len(fields))]
        order = draw(st.permutations(range(len(fields))))  # of the columns; the schema has the order of the record
        avro = {
            "type": "record", "name": f"R{next(NUMBERS)}",
            "fields": [{"name": name, "type": field.avro} for name, field in zip(names, fields, strict=True)],
        }  # fmt: skip
        values = st.fixed_dictionaries({name: field.values for name, field in zip(names, fields, strict=True)})
        return Pair(avro, pa.struct([(names[index], fields[index].arrow) for index in order]), values)
    inner = draw(pairs(depth - 1))
    if shape == "nullable":
        if isinstance(inner.avro, list):
            return inner
        branches = ["null", inner.avro] if draw(st.booleans()) else [inner.avro, "null"]
        return Pair(branches, inner.arrow, st.none() | inner.values)
    if shape == "array":
        arrow = draw(st.sampled_from([pa.list_, pa.large_list]))(inner.arrow)
        return Pair({"type": "array", "items": inner.avro}, arrow, st.lists(inner.values, max_size=3))
    values = st.dictionaries(st.text(max_size=4), inner.values, max_size=3)
    return Pair({"type": "map", "values": inner.avro}, pa.map_(pa.string(), inner.arrow), values)


def for_arrow(value: Any, kind: pa.DataType) -> Any:
    """The value with maps as pairs, at every depth."""
    if value is None:
        return None
    if isinstance(kind, pa.MapType):
        return [(key, for_arrow(item, kind.item_type)) for key, item in value.items()]
    if isinstance(kind, pa.StructType):
        return {field.name: for_arrow(value[field.name], field.type) for field in kind}
    if isinstance(kind, pa.ListType | pa.LargeListType):
        return [for_arrow(item, kind.value_type) for item in value]
    return value


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_every_row_has_the_bytes_of_fastavro(data: st.DataObject) -> None:
    pair = data.draw(pairs())
    rows = data.draw(st.lists(pair.values, min_size=1, max_size=6))
    first = data.draw(st.integers(0, len(rows)))
    values = pa.array([for_arrow(row, pair.arrow) for row in rows], pair.arrow).slice(first)
    found = encoded(pair.avro, values, b"\0\0\0\0\7")
    for row, value in zip(rows[first:], found, strict=True):
        assert value == (None if row is None else b"\0\0\0\0\7" + by_fastavro(pair.avro, row))


def test_times_are_in_the_unit_of_the_schema() -> None:
    cases: Mapping[str, tuple[pa.DataType, int]] = {
        "timestamp-millis": (pa.timestamp("us", "UTC"), -1),
        "timestamp-micros": (pa.timestamp("us", "Europe/Paris"), -1),
        "timestamp-nanos": (pa.timestamp("us", "UTC"), -1000),
        "local-timestamp-millis": (pa.timestamp("us"), -1),
        "time-micros": (pa.time64("us"), 7),
    }
    for logical, (kind, number) in cases.items():
        value = pa.array([number if "time-" in logical else -1], pa.int64()).cast(kind)
        assert encoded({"type": "long", "logicalType": logical}, value) == [by_fastavro("long", number)], logical
    seconds = pa.array([2**62], pa.int64()).cast(pa.timestamp("s", "UTC"))
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded({"type": "long", "logicalType": "timestamp-millis"}, seconds)
    assert caught.value.args == (0, "", "range")


def test_a_nan_keeps_its_bits() -> None:
    (value,) = encoded("double", pa.array([float("nan")]))
    assert value == struct.pack("<d", float("nan"))


def test_text_that_is_no_utf_8_is_made_valid() -> None:
    column = pa.array([b"a\xffb"], pa.binary()).view(pa.string())
    assert encoded("string", column) == [by_fastavro("string", "a\ufffdb")]


def test_a_column_takes_the_branch_of_its_type() -> None:
    union = ["null", "string", "long", {"type": "array", "items": "int"}]
    assert encoded(record(u=union), pa.array([{"u": 7}])) == [b"\4\16"]
    assert encoded(record(u=union), pa.array([{"u": "x"}])) == [b"\2\2x"]
    assert encoded(record(u=union), pa.array([{"u": [1]}], pa.struct([("u", pa.list_(pa.int32()))]))) == [b"\6\2\2\0"]
    assert encoded(record(u=union), pa.array([{"u": None}], pa.struct([("u", pa.null())]))) == [b"\0"]


def test_a_field_without_a_column_has_its_default() -> None:
    schema = {
        "type": "record", "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}, "default": "B"},
            {"name": "tag", "type": ["string", "null"], "default": "t"},
            {"name": "raw", "type": "bytes", "default": "\u00ff"},
            {"name": "again", "type": "K", "default": "A"},
            {"name": "inner", "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]},
             "default": {"x": 3}},
        ],
    }  # fmt: skip
    (value,) = encoded(schema, pa.array([{"id": 1}]))
    assert value is not None
    assert fastavro.schemaless_reader(BytesIO(value), fastavro.parse_schema(schema, {}), None) == {
        "id": 1, "note": None, "kind": "B", "tag": "t", "raw": b"\xff", "again": "A", "inner": {"x": 3},
    }  # fmt: skip


NESTED = record(a={"type": "array", "items": record(x="int") | {"name": "I"}})


@pytest.mark.parametrize(
    ("schema", "rows", "kind", "says"),
    [
        (record(n="int"), [{"n": 1}, {"n": None}], pa.struct([("n", pa.int32())]), (1, "n", "null")),
        (NESTED, [{"a": [{"x": 1}, {"x": None}]}], None, (0, "a[].x", "null")),
        (record(e={"type": "enum", "name": "E", "symbols": ["A"]}), [{"e": "B"}], None, (0, "e", "symbol")),
        (record(f={"type": "fixed", "name": "F", "size": 2}), [{"f": b"abc"}], None, (0, "f", "size")),
        (record(n="long"), [{"n": 2**63}], pa.struct([("n", pa.uint64())]), (0, "n", "range")),
    ],
)  # fmt: skip
def test_a_value_that_the_schema_cannot_have_is_named(
    schema: Any, rows: list[Any], kind: pa.DataType | None, says: tuple[int, str, str]
) -> None:
    values = pa.array(rows, NESTED_KIND if schema is NESTED else kind)
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(schema, values)
    assert caught.value.args == says


NESTED_KIND = pa.struct([("a", pa.list_(pa.struct([("x", pa.int32())])))])
DATE = {"type": "int", "logicalType": "date"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
MOMENT = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize(
    ("schema", "kind", "text", "remedy"),
    [
        (record(n="int"), pa.struct([("n", pa.int64())]), "n is BIGINT, and the schema has int", "CAST(n AS INT)"),
        (record(n="string"), pa.struct([("n", pa.int64())]), "column n is BIGINT, and the schema has string", "STRING"),
        (record(d=DATE), pa.struct([("d", pa.int32())]), "column d is INT, and the schema has int (date)", "AS DATE)"),
        (record(d=MONEY), pa.struct([("d", pa.decimal128(9, 3))]), "d is DECIMAL(9, 3), and", "DECIMAL(9, 2)"),
        (record(t=MOMENT), pa.struct([("t", pa.timestamp("us"))]), "column t is TIMESTAMP_NTZ, and", "AS TIMESTAMP)"),
        (record(t=MOMENT), pa.struct([("t", pa.int64())]), "column t is BIGINT, and", "AS TIMESTAMP)"),
        (record(a="int"), pa.struct([("b", pa.int32())]), "column b has no field in the record R", "leave the column"),
        (record(a="int"), pa.struct([]), "no column a, and the field of the schema", "return the column"),
        (record(a="int"), pa.int32(), "column value is INT, and the schema has the record R", "return a struct"),
        (record(a=["int", "string"]), pa.struct([("a", pa.bool_())]), "BOOLEAN, and the schema has a union", "cast"),
        (NESTED, pa.struct([("a", pa.list_(pa.struct([("x", pa.string())])))]), "column a[].x is STRING", "AS INT"),
        ({"type": "map", "values": "int"}, pa.map_(pa.int32(), pa.int32()), "is MAP<INT, INT>", "type map"),
    ],
)  # fmt: skip
def test_a_column_that_does_not_fit_is_refused_with_what_to_do(
    schema: Any, kind: pa.DataType, text: str, remedy: str
) -> None:
    with pytest.raises(Unfit) as caught:
        avro_plan(schema, kind, "", "the schema")
    assert text in caught.value.text
    assert remedy in caught.value.remedy


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(SchemaUnusable, match="the schema is not an Avro schema"):
        avro_plan({"type": "enum"}, pa.string(), "", "the schema")


def test_a_schema_within_itself_takes_columns_of_any_depth() -> None:
    tree = json.loads(
        '{"type": "record", "name": "T", "fields": [{"name": "n", "type": "int"},'
        ' {"name": "t", "type": ["null", "T"], "default": null}]}'
    )
    values = pa.array([{"n": 1, "t": {"n": 2}}], pa.struct([("n", pa.int32()), ("t", pa.struct([("n", pa.int32())]))]))
    assert encoded(tree, values) == [by_fastavro(tree, {"n": 1, "t": {"n": 2, "t": None}})]
    kind = pa.struct([("n", pa.int32())])
    for _ in range(150):
        kind = pa.struct([("n", pa.int32()), ("t", kind)])
    with pytest.raises(Unfit, match="nested more than 100 times"):
        avro_plan(tree, kind, "", "the schema")


def test_damaged_offsets_are_an_error_and_no_crash() -> None:
    offsets, data = pa.py_buffer(struct.pack("<3i", 0, 900, 3)), pa.py_buffer(b"abc")
    damaged = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, data])
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded("bytes", damaged)
    assert caught.value.args == (0, "", "offsets")
    items = pa.array([1, 2, 3], pa.int32())
    offsets = pa.py_buffer(struct.pack("<3i", 0, 4, 3))
    lists = pa.Array.from_buffers(pa.list_(pa.int32()), 2, [None, offsets], children=[items])
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded({"type": "array", "items": "int"}, lists)
    assert caught.value.args == (0, "", "offsets")
