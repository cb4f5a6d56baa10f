"""Protobuf schemas with imports: the files that every registry has without a reference, and the files of references."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format

from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.model.errors import SchemaUnusable
from sparkapp.source.formats.protobuf import ProtobufDecoder, protobuf_reader_schema
from tests.support.kafka.protobuf_files import message_class, order_with
from tests.support.kafka.schema_registry import RegistryServer, framed_protobuf, registry

BUILT_IN = [
    *(f"google/protobuf/{name}.proto" for name in (
        "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
        "wrappers", "compiler/plugin",
    )),
    *(f"google/type/{name}.proto" for name in (
        "calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval",
        "latlng", "localized_text", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday",
    )),
    "confluent/meta.proto", "confluent/type/decimal.proto", "confluent/type/variant.proto",
    "confluent/types/decimal.proto",
]  # fmt: skip


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def decoder(server: RegistryServer) -> ProtobufDecoder:
    client = SchemaRegistry(server.access, timeout=60)
    schema = protobuf_reader_schema(client, topic="in", side="value", given="")
    return ProtobufDecoder(client, schema, where="the reader schema of the value")


def decoded(server: RegistryServer, file: descriptor_pb2.FileDescriptorProto, **fields: Any) -> dict[str, Any]:
    """The row of a record with these fields, by way of the registry."""
    number = server.register_protobuf("in-value", file)
    record = json_format.ParseDict(fields, message_class(file, "shop.Order")())
    column, errors = decoder(server).decode(
        pa.array([framed_protobuf(number, record.SerializeToString())], pa.binary())
    )
    assert errors == [None]
    return dict(column.to_pylist()[0])


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_schema_may_import_each_file_that_registries_have(server: RegistryServer, name: str) -> None:
    assert decoded(server, order_with(name), id=7) == {"id": 7}


@pytest.mark.parametrize(
    ("name", "type_", "value", "column"),
    [
        ("google/type/money", "google.type.Money", {"currencyCode": "NOK", "units": "7", "nanos": 5},
         {"currency_code": "NOK", "units": 7, "nanos": 5}),
        ("google/type/date", "google.type.Date", {"year": 2026, "month": 11, "day": 28},
         {"year": 2026, "month": 11, "day": 28}),
        ("google/type/dayofweek", "google.type.DayOfWeek", "FRIDAY", "FRIDAY"),
        ("google/protobuf/any", "google.protobuf.Any", {}, {"type_url": "", "value": b""}),
        ("google/protobuf/duration", "google.protobuf.Duration", "1.5s", {"seconds": 1, "nanos": 500_000_000}),
        ("google/protobuf/field_mask", "google.protobuf.FieldMask", "a,b", {"paths": ["a", "b"]}),
        ("google/protobuf/empty", "google.protobuf.Empty", {}, True),
        ("google/protobuf/struct", "google.protobuf.Struct", {"b": [1, 1.5, None], "a": {"c": "ü"}},
         '{"a": {"c": "ü"}, "b": [1.0, 1.5, null]}'),
        ("google/protobuf/struct", "google.protobuf.Value", "text", '"text"'),
        ("google/protobuf/struct", "google.protobuf.ListValue", [True, {"x": 1}], '[true, {"x": 1.0}]'),
        ("confluent/type/decimal", "confluent.type.Decimal", {"value": "AQ==", "precision": 4, "scale": 2},
         {"value": b"\x01", "precision": 4, "scale": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_fields_of_built_in_types(server: RegistryServer, name: str, type_: str, value: object, column: object) -> None:
    file = order_with(f"{name}.proto", type_)
    assert decoded(server, file, id=7, field=value) == {"id": 7, "field": column}
    assert decoded(server, file, id=7)["field"] == (
        None if type_ != "google.type.DayOfWeek" else "DAY_OF_WEEK_UNSPECIFIED"
    )


def test_a_number_that_is_no_json_is_an_error_of_its_record(server: RegistryServer) -> None:
    file = order_with("google/protobuf/struct.proto", "google.protobuf.Value")
    number = server.register_protobuf("in-value", file)
    values = [message_class(file, "shop.Order")(field={"number_value": each}) for each in (1.5, float("nan"))]
    column, errors = decoder(server).decode(
        pa.array([framed_protobuf(number, value.SerializeToString()) for value in values], pa.binary())
    )
    assert column.to_pylist() == [{"id": 0, "field": "1.5"}, None]
    assert errors[1] is not None


def test_a_file_of_a_reference_is_taken_before_the_built_in_file(server: RegistryServer) -> None:
    own = descriptor_pb2.FileDescriptorProto(name="default", package="google.type", syntax="proto3")
    own.message_type.add(name="Money").field.add(name="cents", number=9, type=3, label=1)
    server.register_protobuf("money", own)
    file = order_with("google/type/money.proto", "google.type.Money")
    reference = {"name": "google/type/money.proto", "subject": "money", "version": 1}
    number = server.register_protobuf("in-value", file, references=[reference])
    column, errors = decoder(server).decode(
        pa.array([framed_protobuf(number, b"\x08\x07\x12\x02\x48\x05")], pa.binary())
    )
    assert (column.to_pylist(), errors) == ([{"id": 7, "field": {"cents": 5}}], [None])


@pytest.mark.parametrize(
    "name",
    ["acme/gone.proto", "google/type/gone.proto", "google/protobuf/internal/x.proto", "google/../os.proto",
     "google/type/money", "os.proto"],
)  # fmt: skip
def test_an_unknown_import_is_named_with_what_to_do(server: RegistryServer, name: str) -> None:
    server.register_protobuf("in-value", order_with(name))
    with pytest.raises(SchemaUnusable) as caught:
        decoder(server)
    assert caught.value.message == (
        f"the latest schema of subject 'in-value' imports {name!r}, and has no reference of that name"
    )
    assert caught.value.remedy == (
        f"register {name} in a subject of its own, and the schema again with a reference whose name is {name}"
    )


def test_an_unknown_import_of_a_reference_is_named_too(server: RegistryServer) -> None:
    server.register_protobuf("lines", order_with("acme/gone.proto"))
    reference = {"name": "acme/lines.proto", "subject": "lines", "version": 1}
    server.register_protobuf("in-value", order_with("acme/lines.proto"), references=[reference])
    with pytest.raises(SchemaUnusable, match=r"import acme/lines\.proto imports 'acme/gone\.proto'"):
        decoder(server)


def test_references_in_a_circle_are_refused(server: RegistryServer) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        reference = {"name": f"{other}.proto", "subject": other, "version": 1}
        server.register_protobuf(name, order_with(f"{other}.proto"), references=[reference])
    reference = {"name": "a.proto", "subject": "a", "version": 1}
    server.register_protobuf("in-value", order_with("a.proto"), references=[reference])
    with pytest.raises(SchemaUnusable, match="is inconsistent"):
        decoder(server)


def test_json_of_a_struct_has_its_names_in_order(server: RegistryServer) -> None:
    file = order_with("google/protobuf/struct.proto", "google.protobuf.Struct")
    names = [f"n{number}" for number in range(50)]
    text = decoded(server, file, field=dict.fromkeys(reversed(names), 1))["field"]
    assert list(json.loads(text)) == sorted(names)
