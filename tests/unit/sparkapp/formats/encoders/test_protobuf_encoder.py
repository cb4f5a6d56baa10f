"""Protobuf of Arrow columns by the extension, byte by byte as Google's library writes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from google.protobuf import message_factory, text_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkapp.dataplane.native import _kafka_arrow
from sparkapp.formats.encoders.plan import Unfit
from sparkapp.formats.encoders.protobuf_plan import frame_of, protobuf_plan
from tests.support.kafka.protobuf_files import message_class

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE = "label: LABEL_OPTIONAL"
MANY = "label: LABEL_REPEATED"


def field(name: str, number: int, kind: str, rest: str = ONE) -> str:
    """A field of a plain type, or of a named type."""
    named = f'TYPE_{"ENUM" if kind == ".t.Color" else "MESSAGE"} type_name: "{kind}"' if kind[0] == "." else kind
    return f'field {{ name: "{name}" number: {number} type: {named} {rest} }}\n'


def entry(name: str, key: str, value: str) -> str:
    inside = field("key", 1, key) + field("value", 2, value)
    return f'nested_type {{ name: "{name}" options {{ map_entry: true }} {inside} }}\n'


def file(messages: str, syntax: str = "proto3") -> FileDescriptorProto:
    head = f'name: "all.proto" package: "t" syntax: "{syntax}"'
    for imported in ("timestamp", "wrappers", "empty", "struct"):
        head += f' dependency: "google/protobuf/{imported}.proto"'
    color = 'enum_type { name: "Color" value { name: "NONE" number: 0 } value { name: "RED" number: 300 } }'
    inner = f'message_type {{ name: "Inner" {field("x", 1, "TYPE_INT32")} {field("y", 2, "TYPE_STRING")} }}'
    return text_format.Parse(f"{head} {messages} {inner} {color}", FileDescriptorProto())


def message(fields: str, **others: str) -> FileDescriptorProto:
    return file(f'message_type {{ name: "All" {fields} }}', **others)


INNER = pa.struct([("y", pa.string()), ("x", pa.int32())])
I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
INNERS = st.fixed_dictionaries({"x": I32, "y": st.text(max_size=3)})
PLAIN: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "i32": ("TYPE_INT32", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "i64": ("TYPE_INT64", pa.int64(), I64),
    "u32": ("TYPE_UINT32", pa.int64(), U32),
    "u64": ("TYPE_UINT64", pa.decimal128(20, 0), U64),
    "big": ("TYPE_UINT64", pa.uint64(), U64),
    "s32": ("TYPE_SINT32", pa.int32(), I32),
    "s64": ("TYPE_SINT64", pa.int64(), I64),
    "f32": ("TYPE_FIXED32", pa.uint32(), U32),
    "f64": ("TYPE_FIXED64", pa.decimal128(20, 0), U64),
    "sf32": ("TYPE_SFIXED32", pa.int32(), I32),
    "sf64": ("TYPE_SFIXED64", pa.int64(), I64),
    "b": ("TYPE_BOOL", pa.bool_(), st.booleans()),
    "fl": ("TYPE_FLOAT", pa.float32(), st.floats(width=32, allow_nan=False)),
    "d": ("TYPE_DOUBLE", pa.float64(), st.floats(allow_nan=False)),
    "s": ("TYPE_STRING", pa.large_string(), st.text(max_size=200)),
    "raw": ("TYPE_BYTES", pa.binary(), st.binary(max_size=3)),
    "three": ("TYPE_BYTES", pa.binary(3), st.binary(min_size=3, max_size=3)),
    "color": (".t.Color", pa.string(), st.sampled_from(["NONE", "RED"])),
}
MESSAGES: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "inner": (".t.Inner", INNER, INNERS),
    "at": (".google.protobuf.Timestamp", pa.timestamp("us", "UTC"),
           st.integers(-(10**15), 10**15).map(lambda micros: EPOCH + timedelta(microseconds=micros))),
    "wrapped": (".google.protobuf.Int64Value", pa.int64(), I64),
    "text": (".google.protobuf.StringValue", pa.string(), st.text(max_size=3)),
}  # fmt: skip
EVERYTHING = {**PLAIN, **MESSAGES}


class Drawn(NamedTuple):
    """A message, its column, and rows."""

    file: FileDescriptorProto
    kind: pa.DataType
    rows: st.SearchStrategy[Any]


@st.composite
def messages(draw: st.DrawFn) -> Drawn:
    """A message with some fields: alone, ``optional``, as a list, or as a map's value."""
    fields, oneofs, columns, values = "", 0, [], {}
    for number in draw(st.sets(st.sampled_from([1, 2, 15, 16, 300, 70_000]), min_size=1)):
        kind, arrow, drawn = EVERYTHING[draw(st.sampled_from(sorted(EVERYTHING)))]
        shape = draw(st.sampled_from(["single", "maybe", "list", "map"]))
        name = f"f{number}"
        if shape == "map":
            fields += field(name, number, f".t.All.F{number}Entry", MANY) + entry(
                f"F{number}Entry", "TYPE_STRING", kind
            )
            arrow, drawn = pa.map_(pa.string(), arrow), st.dictionaries(st.text(max_size=2), drawn, max_size=2)
        elif shape == "list":
            fields += field(name, number, kind, MANY)
            arrow, drawn = pa.list_(arrow), st.lists(drawn, max_size=3)
        elif shape == "maybe":
            fields += field(name, number, kind, f"{ONE} oneof_index: {oneofs} proto3_optional: true")
            fields += f'oneof_decl {{ name: "_{name}" }}\n'
            oneofs += 1
            drawn = st.none() | drawn
        else:
            fields += field(name, number, kind)
            drawn = st.none() | drawn if kind[0] == "." and kind != ".t.Color" else drawn
        columns.append(pa.field(name, arrow))
        values[name] = drawn
    return Drawn(message(fields), pa.struct(draw(st.permutations(columns))), st.fixed_dictionaries(values))


def encoded(described: FileDescriptorProto, values: pa.Array[Any], name: str = "t.All") -> list[bytes | None]:
    plan = protobuf_plan(message_class(described, name).DESCRIPTOR, values.type, "")
    encoder = _kafka_arrow.Encoder("protobuf", plan, b"")
    values._export_to_c(encoder.slot())
    found = pa.Array._import_from_c(encoder.encode(), pa.large_binary())
    found.validate(full=True)
    answer: list[bytes | None] = found.to_pylist()
    return answer


def for_arrow(row: dict[str, Any]) -> dict[str, Any]:
    """Maps as pairs, in the order of Google's library: a key is behind those that begin with it."""

    def of(value: Any) -> Any:
        if not isinstance(value, dict) or set(value) == {"x", "y"}:
            return value
        return [(key, value[key]) for key in sorted(value, key=lambda key: key.encode() + b"\xff")]

    return {name: of(value) for name, value in row.items()}


def by_google(kind: Any, row: dict[str, Any]) -> bytes:
    """The message of a row; a wrapper is a message of its own there."""
    made = kind()
    for name, value in row.items():
        if value is None:
            continue
        described = kind.DESCRIPTOR.fields_by_name[name].message_type
        if isinstance(value, dict) and described.GetOptions().map_entry:
            inner = described.fields_by_name["value"].message_type
            for key, each in value.items():
                if inner is None:
                    getattr(made, name)[key] = each
                else:
                    getattr(made, name)[key].CopyFrom(as_message(inner, each))
        elif described is None:
            made.MergeFrom(kind(**{name: value}))
        elif isinstance(value, list):
            getattr(made, name).extend(as_message(described, each) for each in value)
        else:
            getattr(made, name).CopyFrom(as_message(described, value))
    content: bytes = made.SerializeToString(deterministic=True)
    return content


def as_message(described: Descriptor, value: Any) -> Any:
    made = message_factory.GetMessageClass(described)()
    if isinstance(value, datetime):
        made.FromDatetime(value)
        return made
    return type(made)(**(value if isinstance(value, dict) else {"value": value}))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_every_row_has_the_bytes_of_googles_library(data: st.DataObject) -> None:
    drawn = data.draw(messages())
    rows = data.draw(st.lists(drawn.rows, min_size=1, max_size=4))
    first = data.draw(st.integers(0, len(rows)))
    values = pa.array([for_arrow(row) for row in rows], drawn.kind).slice(first)
    kind = message_class(drawn.file, "t.All")
    assert encoded(drawn.file, values) == [by_google(kind, row) for row in rows[first:]]


def test_a_field_without_a_column_is_not_set_and_a_null_row_stays_null() -> None:
    described = message(field("a", 1, "TYPE_INT32") + field("b", 2, "TYPE_INT32") + field("c", 2000, "TYPE_SINT32"))
    kind = pa.struct([("c", pa.int32()), ("a", pa.int32())])
    assert encoded(described, pa.array([{"c": -1, "a": 0}, None], kind)) == [b"\x80\x7d\1", None]


def test_a_message_in_a_message_has_its_size_before_it() -> None:
    described = message(field("inner", 1, ".t.Inner"))
    for size in (0, 1, 120, 130, 20_000, 3_000_000):
        (found,) = encoded(described, pa.array([{"inner": {"y": "a" * size}}]))
        assert found is not None
        assert message_class(described, "t.All").FromString(found).inner.y == "a" * size


def test_empty_and_null_columns() -> None:
    described = message(field("e", 1, ".google.protobuf.Empty") + field("i", 2, ".t.Inner"))
    assert encoded(described, pa.array([{"e": True}, {"e": False}, {"e": None}])) == [b"\x0a\0", b"", b""]
    assert encoded(described, pa.array([{"i": None}], pa.struct([("i", pa.null())]))) == [b""]


EMPTY = ".google.protobuf.Empty"


@pytest.mark.parametrize(
    ("fields", "column", "wrap", "path", "content"),
    [
        (field("n", 1, EMPTY, MANY), pa.list_(pa.bool_()), lambda value: [True, value], "n[]", b"\x0a\0\x0a\0"),
        (field("n", 1, ".t.All.NEntry", MANY) + entry("NEntry", "TYPE_STRING", EMPTY), pa.map_(pa.string(), pa.bool_()),
         lambda value: [("a", value)], "n{}", b"\x0a\5\x0a\1a\x12\0"),
        (field("n", 1, EMPTY, "label: LABEL_REQUIRED"), pa.bool_(), lambda value: value, "n", b"\x0a\0"),
    ],
)  # fmt: skip
def test_an_empty_that_is_always_written_takes_true_alone(
    fields: str, column: pa.DataType, wrap: Any, path: str, content: bytes
) -> None:
    described, kind = message(fields, syntax="proto2"), pa.struct([("n", column)])
    assert encoded(described, pa.array([{"n": wrap(True)}], kind)) == [content]
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(described, pa.array([{"n": wrap(False)}], kind))
    assert caught.value.args == (0, path, "unset")


def test_text_that_is_no_utf_8_is_made_valid() -> None:
    column = pa.array([b"a\xffb"], pa.binary()).view(pa.string())
    values = pa.StructArray.from_arrays([column], ["s"])
    assert encoded(message(field("s", 1, "TYPE_STRING")), values) == [b"\x0a\5a\xef\xbf\xbdb"]


ONEOF = message(
    field("a", 1, "TYPE_INT32", f"{ONE} oneof_index: 0") + field("b", 2, "TYPE_STRING", f"{ONE} oneof_index: 0")
    + 'oneof_decl { name: "choice" }'
)  # fmt: skip
TWO = pa.struct([("b", pa.string()), ("a", pa.int32())])


def test_at_most_one_field_of_a_oneof_has_a_value() -> None:
    rows: list[dict[str, Any]] = [{"a": 0}, {"b": ""}, {}]
    assert encoded(ONEOF, pa.array(rows, TWO)) == [b"\x08\0", b"\x12\0", b""]
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(ONEOF, pa.array([{"a": 0}, {"a": 1, "b": "x"}], TWO))
    assert caught.value.args == (1, "b", "oneof")


def test_proto2_packs_and_requires_what_it_says() -> None:
    fields = field("must", 1, "TYPE_INT32", "label: LABEL_REQUIRED") + field("may", 2, "TYPE_INT32")
    fields += field("list", 3, "TYPE_INT32", MANY) + field("packed", 4, "TYPE_INT32", f"{MANY} options {{ packed: 1 }}")
    described = message(fields, syntax="proto2")
    kind = pa.struct(
        [("must", pa.int32()), ("may", pa.int32()), ("list", pa.list_(pa.int32())), ("packed", pa.list_(pa.int32()))]
    )
    row = {"must": 0, "may": None, "list": [1, 2], "packed": [3, 4]}
    assert encoded(described, pa.array([row], kind)) == [b"\x08\0\x18\1\x18\2\x22\2\3\4"]
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(described, pa.array([{**row, "must": None}], kind))
    assert caught.value.args == (0, "must", "null")
    with pytest.raises(Unfit, match="no column must, and the schema requires the field"):
        encoded(described, pa.array([{"may": 1}], pa.struct([("may", pa.int32())])))


def test_the_frame_has_the_place_of_the_message() -> None:
    deepest = 'nested_type { name: "A" } nested_type { name: "B" nested_type { name: "C" } }'
    described = file(f'message_type {{ name: "First" }} message_type {{ name: "All" {deepest} }}')
    for name, frame in (("First", b"\0"), ("All", b"\2\2"), ("All.A", b"\4\2\0"), ("All.B.C", b"\6\2\2\0")):
        assert frame_of(message_class(described, f"t.{name}").DESCRIPTOR) == frame
    many = file("".join(f'message_type {{ name: "M{number}" }}\n' for number in range(100)))
    assert frame_of(message_class(many, "t.M99").DESCRIPTOR) == b"\2\xc6\1"


@pytest.mark.parametrize(
    ("kind", "column", "value", "problem"),
    [
        ("TYPE_INT32", pa.int32(), None, "null"),
        ("TYPE_UINT32", pa.int64(), 2**32, "range"),
        ("TYPE_FIXED32", pa.int8(), -1, "range"),
        ("TYPE_UINT64", pa.int64(), -1, "range"),
        ("TYPE_UINT64", pa.decimal128(20, 0), Decimal(2**64), "range"),
        ("TYPE_UINT64", pa.decimal128(38, 0), Decimal(-1), "range"),
        ("TYPE_INT64", pa.uint64(), 2**63, "range"),
        (".t.Color", pa.string(), "BLUE", "symbol"),
        (".google.protobuf.Timestamp", pa.timestamp("s", "UTC"), 253402300800, "range"),
    ],
)
def test_a_value_that_the_schema_cannot_have_is_named(kind: str, column: pa.DataType, value: Any, problem: str) -> None:
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(message(field("n", 1, kind)), pa.array([{"n": value}], pa.struct([("n", column)])))
    assert caught.value.args == (0, "n", problem)


@pytest.mark.parametrize(
    ("column", "value", "path"),
    [
        (pa.list_(INNER), [{"x": 1, "y": "a"}, None], "n[]"),
        (pa.list_(INNER), [{"x": 1, "y": None}], "n[].y"),
        (pa.list_(INNER), None, "n"),
    ],
)
def test_lists_take_no_null(column: pa.DataType, value: Any, path: str) -> None:
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(message(field("n", 1, ".t.Inner", MANY)), pa.array([{"n": value}], pa.struct([("n", column)])))
    assert caught.value.args == (0, path, "null")


@pytest.mark.parametrize(
    ("kind", "rest", "column", "text", "remedy"),
    [
        ("TYPE_INT32", ONE, pa.int64(), "column n is BIGINT, and the schema has int32", "CAST(n AS INT)"),
        ("TYPE_UINT64", ONE, pa.decimal128(9, 1), "n is DECIMAL(9, 1), and the schema has uint64", "DECIMAL(20, 0)"),
        ("TYPE_FLOAT", ONE, pa.float64(), "column n is DOUBLE, and the schema has float", "CAST(n AS FLOAT)"),
        ("TYPE_STRING", MANY, pa.string(), "n is STRING, and the schema has a list of string", "return a column"),
        ("TYPE_STRING", MANY, pa.list_(pa.int8()), "column n[] is TINYINT, and the schema has string", "AS STRING)"),
        (".t.Color", ONE, pa.int32(), "column n is INT, and the schema has the enum t.Color", "CAST(n AS STRING)"),
        (".t.Inner", ONE, pa.int32(), "column n is INT, and the schema has the message t.Inner", "return a struct"),
        (".t.Inner", ONE, pa.struct([("z", pa.int8())]), "n.z has no field in the message t.Inner", "leave the column"),
        (".google.protobuf.Timestamp", ONE, pa.timestamp("us"), "TIMESTAMP_NTZ, and the schema has", "AS TIMESTAMP)"),
        (".google.protobuf.Empty", ONE, pa.int8(), "the schema has google.protobuf.Empty", "AS BOOLEAN)"),
        (".google.protobuf.Struct", ONE, pa.string(), "has google.protobuf.Struct in the schema", "a string in its"),
        ("TYPE_INT32", ONE, pa.null(), "column n is VOID, and the schema has int32", "CAST(n AS INT)"),
    ],
)
def test_a_column_that_does_not_fit_is_refused_with_what_to_do(
    kind: str, rest: str, column: pa.DataType, text: str, remedy: str
) -> None:
    described = message_class(message(field("n", 1, kind, rest)), "t.All").DESCRIPTOR
    with pytest.raises(Unfit) as caught:
        protobuf_plan(described, pa.struct([("n", column)]), "")
    assert text in caught.value.text
    assert remedy in caught.value.remedy


SHAPES = message(
    field("n", 1, "TYPE_INT32") + field("m", 2, ".t.All.MEntry", MANY) + entry("MEntry", "TYPE_STRING", "TYPE_INT32")
)


def test_a_result_without_the_shape_of_the_message_is_refused() -> None:
    described = message_class(SHAPES, "t.All").DESCRIPTOR
    with pytest.raises(Unfit, match=r"column key is STRING, and the schema has the message t\.All"):
        protobuf_plan(described, pa.string(), "key")
    with pytest.raises(Unfit, match="column n is there more than once"):
        protobuf_plan(described, pa.struct([("n", pa.int8()), ("n", pa.int8())]), "")
    with pytest.raises(Unfit, match="column m is STRUCT<a>, and the schema has a map"):
        protobuf_plan(described, pa.struct([("m", pa.struct([("a", pa.int8())]))]), "")
    within = message(field("all", 1, ".t.All") + field("group", 2, "TYPE_GROUP type_name: '.t.Inner'"), syntax="proto2")
    described, kind = message_class(within, "t.All").DESCRIPTOR, pa.struct([("all", pa.null())])
    for _ in range(150):
        kind = pa.struct([("all", kind)])
    with pytest.raises(Unfit, match="nested more than 100 times"):
        protobuf_plan(described, kind, "")
    with pytest.raises(Unfit, match="column group has the group group in the schema"):
        protobuf_plan(described, pa.struct([("group", INNER)]), "")
