"""Protobuf messages as Arrow types, and as Python values for Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sparkapp.model.errors import SchemaUnusable

_PLAIN: Mapping[int, pa.DataType] = {
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_FIXED64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_ENUM: pa.string(),
}
"""Unsigned numbers get a wider type, because Spark has no unsigned types."""
_WRAPPER = "google.protobuf.{}Value"
_WRAPPERS = frozenset(
    _WRAPPER.format(kind)
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
Convert = Callable[[Any], Any]


def _json(value: Any) -> str:
    """:raises ValueError: a number is infinite or not a number; its record is an error."""
    return str(json_format.MessageToJson(value, indent=None, sort_keys=True, ensure_ascii=False))


_SPECIAL: Mapping[str, tuple[pa.DataType, Convert]] = {
    "google.protobuf.Timestamp": (
        pa.timestamp("us", "UTC"), lambda field: field.seconds * 1_000_000 + field.nanos // 1000,
    ),
    "google.protobuf.Empty": (pa.bool_(), lambda _: True),
    # They contain themselves, and stand for any value of JSON.
    **dict.fromkeys(
        ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"), (pa.string(), _json)
    ),
}  # fmt: skip
"""Messages whose columns are not the structs of their fields."""


def arrow_type(message: Descriptor, where: str) -> pa.DataType:
    """A struct with the message's fields.

    :raises SchemaUnusable: a message has no field, or contains itself.
    """
    return _struct(message, where, "", (message.full_name,))


def converter(message: Descriptor) -> Convert:
    """Creates the function from a parsed message to a value of :func:`arrow_type`.

    An unset field with presence is null; without presence it has its default.
    """
    fields = [(field.name, _field_converter(field)) for field in message.fields]

    def convert(parsed: Any) -> Any:
        return {name: read(parsed) for name, read in fields}

    return convert


def _struct(message: Descriptor, where: str, path: str, inside: tuple[str, ...]) -> pa.DataType:
    if not message.fields:
        _refuse(where, path, f"is a message without fields ({message.full_name})")
    dot = "." if path else ""
    return pa.struct(
        [
            pa.field(field.name, _field_type(field, where, f"{path}{dot}{field.name}", inside))
            for field in message.fields
        ]
    )


def _field_type(field: FieldDescriptor, where: str, path: str, inside: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_PLAIN[entry["key"].type], _single_type(entry["value"], where, path, inside))
    kind = _single_type(field, where, path, inside)
    return pa.list_(kind) if field.is_repeated else kind


def _single_type(field: FieldDescriptor, where: str, path: str, inside: tuple[str, ...]) -> pa.DataType:
    message = field.message_type
    if message is None:
        return _PLAIN[field.type]
    if message.full_name in _SPECIAL:
        return _SPECIAL[message.full_name][0]
    if message.full_name in _WRAPPERS:
        return _PLAIN[message.fields_by_name["value"].type]
    if message.full_name in inside:
        _refuse(where, path, f"contains itself ({message.full_name})")
    return _struct(message, where, path, (*inside, message.full_name))


def _field_converter(field: FieldDescriptor) -> Convert:
    name = field.name
    if _is_map(field):
        value = _single_converter(field.message_type.fields_by_name["value"])
        # By item access: a map of messages has no other access to its values.
        return lambda field: {key: value(getattr(field, name)[key]) for key in getattr(field, name)}
    single = _single_converter(field)
    if field.is_repeated:
        return lambda field: [single(value) for value in getattr(field, name)]
    if field.has_presence:
        return lambda field: single(getattr(field, name)) if field.HasField(name) else None
    return lambda field: single(getattr(field, name))


def _single_converter(field: FieldDescriptor) -> Convert:
    message = field.message_type
    if message is not None:
        if message.full_name in _SPECIAL:
            return _SPECIAL[message.full_name][1]
        if message.full_name in _WRAPPERS:
            return lambda field: field.value
        return converter(message)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        # An open enum may hold a number without a name in this schema.
        return lambda number: names.get(number) or str(number)
    return lambda value: value


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _refuse(where: str, path: str, what: str) -> NoReturn:
    msg = f"{where}: {path or 'the message itself'} {what}"
    raise SchemaUnusable(msg, remedy="choose another message, or remove the field from it")
