"""Protobuf: the registry's descriptors as columns, and records that are none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, text_format

from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.model.errors import SchemaError, SchemaNotFound, SchemaUnusable
from sparkapp.source.formats.protobuf import ProtobufDecoder, message_indexes, protobuf_reader_schema
from sparkapp.source.formats.registered_records import BadRecord
from tests.support.kafka.protobuf_files import message_class
from tests.support.kafka.schema_registry import RegistryServer, framed_protobuf, registry

ORDER = """
name: "default" package: "shop" syntax: "proto3"
message_type {
  name: "Order"
  field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "name" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  nested_type { name: "Line" field { name: "sku" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL } }
}
message_type { name: "Other" field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
"""
SLIM = """
name: "default" package: "shop" syntax: "proto3"
message_type { name: "Order" field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }
"""


def file(text: str) -> descriptor_pb2.FileDescriptorProto:
    return text_format.Parse(text, descriptor_pb2.FileDescriptorProto())


def message(proto: descriptor_pb2.FileDescriptorProto, name: str, /, **fields: Any) -> bytes:
    """Serialized with a pool of its own, as another program would."""
    return bytes(message_class(proto, name)(**fields).SerializeToString())


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def decoder(server: RegistryServer, given: str = "") -> ProtobufDecoder:
    client = SchemaRegistry(server.access, timeout=60)
    schema = protobuf_reader_schema(client, topic="in", side="value", given=given)
    return ProtobufDecoder(client, schema, where="the reader schema of the value")


def decode(decoding: ProtobufDecoder, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    column, errors = decoding.decode(pa.array(values, pa.binary()))
    assert column.type == decoding.type
    return column.to_pylist(), errors


def test_writers_of_several_versions(server: RegistryServer) -> None:
    old, new = file(SLIM), file(ORDER)
    first, second = server.register_protobuf("in-value", old), server.register_protobuf("in-value", new)
    rows, errors = decode(
        decoder(server),
        framed_protobuf(first, message(old, "shop.Order", id=1)),
        framed_protobuf(second, message(new, "shop.Order", id=2, name="x")),
        None,
        framed_protobuf(second, b""),
        framed_protobuf(second, message(new, "shop.Order", id=3), 0),
    )
    assert errors == [None] * 5
    assert rows == [{"id": 1, "name": ""}, {"id": 2, "name": "x"}, None, {"id": 0, "name": ""}, {"id": 3, "name": ""}]


def test_what_is_not_a_record_is_an_error_and_its_neighbours_are_not(server: RegistryServer) -> None:
    new = file(ORDER)
    number = server.register_protobuf("in-value", new)
    avro = server.register("a", '"int"')
    good = framed_protobuf(number, message(new, "shop.Order", id=2))
    rows, errors = decode(
        decoder(server),
        good, b"", b"plain", good[:5], good[:5] + b"\x80", framed_protobuf(number, b"", 1),
        framed_protobuf(number, b"", 7),
        framed_protobuf(number, b"\x0a\xff"), framed_protobuf(number, b"\x12\x01\xff"), framed_protobuf(99, b""),
        framed_protobuf(avro, b""), good[:5] + b"\x7f", good,
    )  # fmt: skip
    assert [row is None for row in rows] == [False, *[True] * 11, False]
    expected = [
        "begin with a zero byte", "begin with a zero byte", "ends within its message indexes",
        "ends within its message indexes", "the message is shop.Other, not shop.Order as the columns", "no message [7]",
        "DecodeError", "DecodeError", "has no schema 99", "is of type AVRO", "message indexes",
    ]  # fmt: skip
    for text, wanted in zip(errors[1:-1], expected, strict=True):
        assert text is not None
        assert wanted in text


def test_another_message_than_the_first(server: RegistryServer) -> None:
    new = file(ORDER)
    number = server.register_protobuf("in-value", new)
    line = message(new, "shop.Order.Line", sku="s")
    rows, errors = decode(
        decoder(server, "shop.Order.Line"), framed_protobuf(number, line, 0, 0), framed_protobuf(number, line)
    )
    assert rows == [{"sku": "s"}, None]
    assert errors[1] is not None
    with pytest.raises(SchemaUnusable, match=r"'shop\.Nothing' is not a message") as caught:
        decoder(server, "shop.Nothing")
    assert caught.value.remedy == "set it to one of shop.Order, shop.Order.Line, shop.Other"


ALL = """
name: "all.proto" package: "t" syntax: "proto3"
dependency: "google/protobuf/timestamp.proto" dependency: "google/protobuf/wrappers.proto"
message_type {
  name: "All"
  field { name: "u32" number: 1 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "u64" number: 2 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "s32" number: 3 type: TYPE_SINT32 label: LABEL_OPTIONAL }
  field { name: "d" number: 4 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "b" number: 5 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "raw" number: 6 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "color" number: 7 type: TYPE_ENUM type_name: ".t.Color" label: LABEL_OPTIONAL }
  field { name: "list" number: 8 type: TYPE_INT32 label: LABEL_REPEATED }
  field { name: "map" number: 9 type: TYPE_MESSAGE type_name: ".t.All.MapEntry" label: LABEL_REPEATED }
  field { name: "inner" number: 10 type: TYPE_MESSAGE type_name: ".t.Inner" label: LABEL_OPTIONAL }
  field { name: "at" number: 11 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "wrapped" number: 12 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" label: LABEL_OPTIONAL }
  field { name: "maybe" number: 13 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 0 proto3_optional: true }
  field { name: "inners" number: 14 type: TYPE_MESSAGE type_name: ".t.Inner" label: LABEL_REPEATED }
  nested_type {
    name: "MapEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".t.Inner" label: LABEL_OPTIONAL }
  }
  oneof_decl { name: "_maybe" }
}
message_type { name: "Inner" field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL } }
enum_type { name: "Color" value { name: "NONE" number: 0 } value { name: "RED" number: 1 } }
"""


def test_types(server: RegistryServer) -> None:
    everything = file(ALL)
    number = server.register_protobuf("in-value", everything)
    at = datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC)
    full = message(
        everything, "t.All", u32=(1 << 32) - 1, u64=(1 << 64) - 1, s32=-5, d=0.5, b=True, raw=b"\xff", color=1,
        list=[1, 2], map={"a": {"x": 7}}, inner={"x": 1}, at=at, wrapped={"value": 0}, maybe=0, inners=[{"x": 3}],
    )  # fmt: skip
    rows, errors = decode(
        decoder(server),
        framed_protobuf(number, full),
        framed_protobuf(number, b""),
        framed_protobuf(number, b"\x38\x09"),
    )
    assert errors == [None] * 3
    for row in rows:
        row["map"] = dict(row["map"])
    assert rows[0] == {
        "u32": (1 << 32) - 1, "u64": Decimal((1 << 64) - 1), "s32": -5, "d": 0.5, "b": True, "raw": b"\xff",
        "color": "RED", "list": [1, 2], "map": {"a": {"x": 7}}, "inner": {"x": 1}, "at": at, "wrapped": 0, "maybe": 0,
        "inners": [{"x": 3}],
    }  # fmt: skip
    assert rows[1] == {
        "u32": 0, "u64": Decimal(0), "s32": 0, "d": 0.0, "b": False, "raw": b"", "color": "NONE", "list": [], "map": {},
        "inner": None, "at": None, "wrapped": None, "maybe": None, "inners": [],
    }  # fmt: skip
    assert rows[2]["color"] == "9"


def test_imports(server: RegistryServer) -> None:
    money = file(
        'name: "default" package: "m" syntax: "proto3" message_type { name: "Money" '
        'field { name: "cents" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }'
    )
    server.register_protobuf("money", money)
    order = file(
        'name: "default" package: "shop" syntax: "proto3" dependency: "m/money.proto" message_type { name: "Order" '
        'field { name: "price" number: 1 type: TYPE_MESSAGE type_name: ".m.Money" label: LABEL_OPTIONAL } }'
    )
    imported = [{"name": "m/money.proto", "subject": "money", "version": 1}]
    number = server.register_protobuf("in-value", order, references=imported)
    rows, errors = decode(decoder(server), framed_protobuf(number, b"\x0a\x02\x08\x07"))
    assert (rows, errors) == ([{"price": {"cents": 7}}], [None])


@pytest.mark.parametrize(
    ("text", "message_"),
    [
        ('name: "n" syntax: "proto3"', "has no message"),
        ('name: "n" syntax: "proto3" message_type { name: "E" }', "without fields"),
        ('name: "n" syntax: "proto3" message_type { name: "T" field { name: "next" number: 1 type: TYPE_MESSAGE '
         'type_name: ".T" label: LABEL_OPTIONAL } }', "next contains itself"),
    ],
    ids=["nothing", "empty", "recursive"],
)  # fmt: skip
def test_a_message_that_cannot_be_columns(server: RegistryServer, text: str, message_: str) -> None:
    server.register_protobuf("in-value", file(text))
    with pytest.raises(SchemaError) as caught:
        decoder(server)
    assert message_ in caught.value.message


def test_what_the_registry_lacks_is_said_at_the_start(server: RegistryServer) -> None:
    with pytest.raises(SchemaNotFound):
        decoder(server)
    server.register("in-value", '"int"')
    with pytest.raises(SchemaUnusable):
        decoder(server)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00x", ((0,), 1)),
        (b"\x02\x00x", ((0,), 2)),
        (b"\x04\x02\x06x", ((1, 3), 3)),
        (b"\x02\xac\x02x", ((150,), 3)),
    ],
)
def test_message_indexes(value: bytes, expected: tuple[tuple[int, ...], int]) -> None:
    assert message_indexes(value, 0) == expected


@pytest.mark.parametrize("value", [b"", b"\x80", b"\x04\x02", b"\x01", b"\xff" * 20], ids=repr)
def test_message_indexes_that_are_none(value: bytes) -> None:
    with pytest.raises(BadRecord):
        message_indexes(value, 0)


@pytest.mark.parametrize(
    "poison",
    [
        b"\x1b" * 500_000,
        b"\x1b" * 500_000 + b"\x1c" * 500_000,
        b"\x12\xff\xff\xff\xff\x07x",
        b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\xff" * 1000,
    ],
    ids=["groups without an end", "half a million groups", "text of 2 GiB", "text of 2^64", "a number without an end"],
)
def test_poison_is_an_error_of_its_record(server: RegistryServer, poison: bytes) -> None:
    number = server.register_protobuf("in-value", file(ORDER))
    good = framed_protobuf(number, message(file(ORDER), "shop.Order", id=7))
    rows, errors = decoder(server).decode(pa.array([good, framed_protobuf(number, poison), good], pa.binary()))
    assert [row and row["id"] for row in rows.to_pylist()] == [7, None, 7]
    assert [error is not None for error in errors] == [False, True, False]


def test_an_unknown_id_is_asked_for_once(server: RegistryServer) -> None:
    server.register_protobuf("in-value", file(ORDER))
    decoding = decoder(server)
    before = len(server.requests)
    for _ in range(50):
        decoding.decode(pa.array([framed_protobuf(99, b"\x08\x07")] * 3, pa.binary()))
    assert len(server.requests) == before + 1
