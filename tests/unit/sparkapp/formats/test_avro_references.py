"""Avro schemas that name types of other subjects, and topics with records of several types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.model.errors import SchemaUnusable
from sparkapp.source.formats.avro import AvroDecoder, avro_reader_schema
from tests.support.kafka.schema_registry import RegistryServer, framed, registry


def record(name: str, *fields: tuple[str, object], **extra: object) -> dict[str, object]:
    listed = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "namespace": "com.a", "fields": listed, **extra}


X, Y = record("X", ("id", "int")), record("Y", ("label", "string"))
COLOR = {"type": "enum", "name": "com.a.Color", "symbols": ["RED", "BLUE"]}
HASH = {"type": "fixed", "name": "com.a.Hash", "size": 2}
DAY = record("Day", ("on", {"type": "int", "logicalType": "date"}))
PART = record("Part", ("x", X))
BOTH = record("Both", ("part", PART), ("other", record("Other", ("x", "X"), ("y", Y))), ("x", "X"))
DIAMOND = {"part": {"x": {"id": 1}}, "other": {"x": {"id": 2}, "y": {"label": "l"}}, "x": {"id": 3}}
SUBJECTS: Mapping[str, object] = {
    "com.a.X": X, "com.a.Y": Y, "com.a.Color": COLOR, "com.a.Hash": HASH, "com.a.Day": DAY,
}  # fmt: skip


def to(*names: str) -> list[dict[str, Any]]:
    """References by the name of the type, as Confluent's serializer registers them."""
    return [{"name": name, "subject": f"of {name}", "version": 1} for name in names]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        for name, schema in SUBJECTS.items():
            running.register(f"of {name}", schema)
        running.register("of com.a.Part", record("Part", ("x", "com.a.X")), references=to("com.a.X"))
        running.register("of com.a.Other", record("Other", ("x", "X"), ("y", "Y")), references=to("com.a.X", "com.a.Y"))
        yield running


def decode(server: RegistryServer, reader: object, *values: bytes) -> tuple[list[Any], list[str | None]]:
    decoding = AvroDecoder(SchemaRegistry(server.access, timeout=60), json.dumps(reader), where="the reader schema")
    column, errors = decoding.decode(pa.array(values, pa.binary()))
    return column.to_pylist(), errors


def array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def map_of(values: object) -> dict[str, object]:
    return {"type": "map", "values": values}


@pytest.mark.parametrize(
    ("registered", "names", "schemas", "values"),
    [
        ("com.a.X", ["com.a.X"], (X, X), ({"id": 7}, {"id": 7})),
        ({"type": "com.a.X"}, ["com.a.X"], (X, X), ({"id": 7}, {"id": 7})),
        (["com.a.X", "com.a.Y"], ["com.a.X", "com.a.Y"], ([X, Y], X), (("com.a.X", {"id": 7}), {"id": 7})),
        (["com.a.Y", "com.a.X"], ["com.a.X", "com.a.Y"], ([Y, X], X), (("com.a.X", {"id": 7}), {"id": 7})),
        (["null", "com.a.X"], ["com.a.X"], (["null", X], ["null", X]), ({"id": 7}, {"id": 7})),
        (["null", "com.a.X"], ["com.a.X"], (["null", X], ["null", X]), (None, None)),
        (array("com.a.X"), ["com.a.X"], (array(X), array(X)), ([{"id": 7}], [{"id": 7}])),
        (array(["null", "com.a.X"]), ["com.a.X"], (array(["null", X]), array(["null", X])),
         ([None, {"id": 7}], [None, {"id": 7}])),
        (map_of("com.a.X"), ["com.a.X"], (map_of(X), map_of(X)), ({"k": {"id": 7}}, [("k", {"id": 7})])),
        (map_of(array("com.a.X")), ["com.a.X"], (map_of(array(X)), map_of(array(X))),
         ({"k": [{"id": 7}]}, [("k", [{"id": 7}])])),
        ("com.a.Color", ["com.a.Color"], (COLOR, COLOR), ("BLUE", "BLUE")),
        ("com.a.Hash", ["com.a.Hash"], (HASH, HASH), (b"ab", b"ab")),
        ("com.a.Part", ["com.a.Part"], (PART, PART), ({"x": {"id": 7}}, {"x": {"id": 7}})),
        # The type of a reference's reference is named before the reference.
        (["com.a.X", "com.a.Part"], ["com.a.Part"], ([X, record("Part", ("x", "X"))], PART),
         (("com.a.Part", {"x": {"id": 7}}), {"x": {"id": 7}})),
        (record("Both", ("part", "Part"), ("other", "Other"), ("x", "X")), ["com.a.Part", "com.a.Other"],
         (BOTH, BOTH), (DIAMOND, DIAMOND)),
    ],
    ids=["name", "name as an object", "union", "second of a union", "nullable", "null", "array", "array of nullables",
         "map", "map of arrays", "enum", "fixed", "nested", "before the reference that has it", "diamond"],
)  # fmt: skip
def test_a_named_type_is_that_of_its_reference(
    server: RegistryServer, registered: object, names: list[str], schemas: tuple[object, object], values: object
) -> None:
    (whole, reader), (value, expected) = schemas, values
    number = server.register("in-value", json.dumps(registered), references=to(*names))
    assert decode(server, reader, framed(number, whole, value)) == ([expected], [None])


def test_a_record_of_another_type_of_the_union_is_an_error(server: RegistryServer) -> None:
    number = server.register("in-value", ["com.a.X", "com.a.Y"], references=to("com.a.X", "com.a.Y"))
    values = [
        framed(number, [X, Y], value)
        for value in (("com.a.X", {"id": 1}), ("com.a.Y", {"label": "l"}), ("com.a.X", {"id": 2}))
    ]
    rows, errors = decode(server, X, *values)
    assert rows == [{"id": 1}, None, {"id": 2}]
    assert [error is None for error in errors] == [True, False, True]


def test_a_reference_whose_name_is_not_that_of_its_type_is_read_once(server: RegistryServer) -> None:
    files = [{"name": f"{name}.avsc", "subject": "of com.a.X", "version": 1} for name in ("one", "two")]
    number = server.register("in-value", record("Pair", ("a", "X"), ("b", "X")), references=files)
    pair = record("Pair", ("a", X), ("b", "X"))
    rows, errors = decode(server, pair, framed(number, pair, {"a": {"id": 1}, "b": {"id": 2}}))
    assert (rows, errors) == ([{"a": {"id": 1}, "b": {"id": 2}}], [None])
    assert len(server.requests) == 2


def test_a_type_that_contains_itself_is_skipped_where_the_reader_leaves_it_out(server: RegistryServer) -> None:
    tree = record("Tree", ("id", "int"), ("below", array("Tree")))
    server.register("of com.a.Tree", tree)
    number = server.register("in-value", ["null", "com.a.Tree"], references=to("com.a.Tree"))
    value = {"id": 1, "below": [{"id": 2, "below": []}]}
    only_id = ["null", record("Tree", ("id", "int"))]
    assert decode(server, only_id, framed(number, ["null", tree], value)) == ([{"id": 1}], [None])


def test_references_in_a_circle_are_an_error_of_their_records(server: RegistryServer) -> None:
    server.register("of com.a.P", record("P", ("q", "Q")), references=to("com.a.Q"))
    server.register("of com.a.Q", record("Q", ("p", "P")), references=to("com.a.P"))
    number = server.register("in-value", '"com.a.P"', references=to("com.a.P"))
    _, errors = decode(server, X, framed(number, X, {"id": 1}))
    assert errors[0] is not None
    assert f"schema {number} of the registry" in errors[0]


def test_a_name_without_a_reference_is_named_by_the_error(server: RegistryServer) -> None:
    number = server.register("in-value", ["null", "com.a.Gone"])
    _, errors = decode(server, X, framed(number, X, {"id": 1}))
    assert errors[0] is not None
    assert "com.a.Gone" in errors[0]


@pytest.mark.parametrize(
    ("registered", "names", "column"),
    [
        ("com.a.X", ["com.a.X"], pa.struct([("id", pa.int32())])),
        (["null", "com.a.Day"], ["com.a.Day"], pa.struct([("on", pa.date32())])),
        (record("R", ("days", array("Day"))), ["com.a.Day"],
         pa.struct([("days", pa.list_(pa.struct([("on", pa.date32())])))])),
    ],
    ids=["name", "nullable", "array"],
)  # fmt: skip
def test_the_latest_schema_of_the_subject_has_the_types_of_its_references(
    server: RegistryServer, registered: object, names: list[str], column: pa.DataType
) -> None:
    server.register("in-value", json.dumps(registered), references=to(*names))
    client = SchemaRegistry(server.access, timeout=60)
    reader = avro_reader_schema(client, topic="in", side="value", given="")
    assert AvroDecoder(client, reader, where="the reader schema").type == column


def test_a_reader_schema_of_several_types_has_the_remedy_to_name_one(server: RegistryServer) -> None:
    server.register("in-value", ["com.a.X", "com.a.Y"], references=to("com.a.X", "com.a.Y"))
    client = SchemaRegistry(server.access, timeout=60)
    reader = avro_reader_schema(client, topic="in", side="value", given="")
    with pytest.raises(SchemaUnusable, match="the schema itself is a union of 2 types") as caught:
        AvroDecoder(client, reader, where="the reader schema")
    assert caught.value.remedy == "set spec.source.format.valueSchema (or keySchema) to the whole schema of one of them"
