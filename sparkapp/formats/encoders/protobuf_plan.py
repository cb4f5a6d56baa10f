"""Protobuf of a column, by a message: each field of the message takes the column of its name.

Types are those of the source's columns, so what a job has read it can write. A plan's fields are in the order of their
numbers, as Protobuf's own libraries write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor

from sparkapp.formats.encoders.plan import MAX_DEPTH, UNITS, Node, Unfit, inner_path, layout_of, spark_name
from sparkapp.formats.protobuf_messages import Message, message_indexes_of

_SMALL = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()})
_WHOLE = _SMALL | {pa.int64(), pa.uint32(), pa.uint64()}
_TEXTS = frozenset({pa.string(), pa.large_string()})
_BYTES = frozenset({pa.binary(), pa.large_binary()})
_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
"""Wire types."""
_PLAIN: Mapping[int, tuple[str, int, frozenset[pa.DataType], str, int]] = {
    FieldDescriptor.TYPE_DOUBLE: ("double", _EIGHT, _SMALL | {pa.uint32(), pa.float32(), pa.float64()}, "DOUBLE", 0),
    FieldDescriptor.TYPE_FLOAT: ("float", _FOUR, frozenset({pa.float32()}), "FLOAT", 0),
    FieldDescriptor.TYPE_INT64: ("varint", _VARINT, _WHOLE, "BIGINT", 0),
    FieldDescriptor.TYPE_SINT64: ("zigzag", _VARINT, _WHOLE, "BIGINT", 0),
    FieldDescriptor.TYPE_SFIXED64: ("fixed64", _EIGHT, _WHOLE, "BIGINT", 0),
    FieldDescriptor.TYPE_UINT64: ("varint", _VARINT, _WHOLE, "DECIMAL(20, 0)", 64),
    FieldDescriptor.TYPE_FIXED64: ("fixed64", _EIGHT, _WHOLE, "DECIMAL(20, 0)", 64),
    FieldDescriptor.TYPE_INT32: ("varint", _VARINT, _SMALL, "INT", 0),
    FieldDescriptor.TYPE_SINT32: ("zigzag", _VARINT, _SMALL, "INT", 0),
    FieldDescriptor.TYPE_SFIXED32: ("fixed32", _FOUR, _SMALL, "INT", 0),
    FieldDescriptor.TYPE_UINT32: ("varint", _VARINT, _WHOLE, "BIGINT", 32),
    FieldDescriptor.TYPE_FIXED32: ("fixed32", _FOUR, _WHOLE, "BIGINT", 32),
    FieldDescriptor.TYPE_BOOL: ("boolean", _VARINT, frozenset({pa.bool_()}), "BOOLEAN", 0),
    FieldDescriptor.TYPE_STRING: ("text", _SIZED, _TEXTS, "STRING", 0),
    FieldDescriptor.TYPE_BYTES: ("bytes", _SIZED, _BYTES, "BINARY", 0),
    FieldDescriptor.TYPE_ENUM: ("symbol", _VARINT, _TEXTS, "STRING", 0),
}
"""How a type is written: with which wire type, of which columns, what a query casts to, bits of an unsigned type."""
_NAMES = {number: name.removeprefix("TYPE_").lower() for name, number in vars(FieldDescriptor).items()
          if name.startswith("TYPE_")}  # fmt: skip
_ALWAYS, _EXPLICIT, _IMPLICIT = -1, 0, 1
"""What becomes of a null and of a default, as ``ext/encode/protobuf.c`` reads it."""
_SAME_ARRAY = -1
_MAX_ONEOFS = 64
_OF_GOOGLE = "google.protobuf."
_ANY_JSON = frozenset({"Struct", "Value", "ListValue"})
_WRAPPERS = frozenset(
    f"{kind}Value" for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def protobuf_plan(message: Message, kind: pa.DataType, path: str) -> Node:
    """The plan of a column.

    :param path: of the column; empty for a record of several columns.
    :raises Unfit: the column does not fit the message.
    """
    return _message(message, kind, path, 0)


def frame_of(message: Message) -> bytes:
    """What Confluent's serializers write between id and message: the message's place in its file."""
    places = message_indexes_of(message)
    if places == (0,):
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(places), *places))


def _message(message: Message, kind: pa.DataType, path: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise Unfit(f"column {path} is nested more than {MAX_DEPTH} times", "return a column with fewer levels")
    if not pa.types.is_struct(kind):
        text = f"column {path or 'value'} is {spark_name(kind)}, and the schema has the message {message.full_name}"
        raise Unfit(text, "return a struct with the message's fields, or its fields as columns")
    names = [column.name for column in kind]
    for name in names:
        if name not in message.fields_by_name:
            text = f"column {inner_path(path, name)} has no field in the message {message.full_name}"
            raise Unfit(text, "leave the column out of the result, or add the field to the schema")
        if names.count(name) > 1:
            raise Unfit(f"column {inner_path(path, name)} is there more than once", "return each column once")
    oneofs = {oneof.name: index for index, oneof in enumerate(message.oneofs)}
    children = []
    for field in sorted(message.fields, key=lambda each: int(each.number)):
        inside = inner_path(path, field.name)
        if field.name in names:
            index = names.index(field.name)
            made = _field(field, kind.field(index).type, inside, depth)._replace(column=index)
            children.append(_with_presence(field, made, oneofs, inside))
        elif field.is_required:
            raise Unfit(f"no column {inside}, and the schema requires the field", "return the column")
    return Node("record", "struct", path=path, children=tuple(children))


def _with_presence(field: FieldDescriptor, node: Node, oneofs: Mapping[str, int], path: str) -> Node:
    if field.is_repeated or field.is_required:
        return node
    if not field.has_presence:
        return node._replace(null_branch=_IMPLICIT)
    oneof = field.containing_oneof
    # An optional field of proto3 is in a oneof of its own.
    shared = -1 if oneof is None or len(oneof.fields) == 1 else oneofs[oneof.name]
    if shared >= _MAX_ONEOFS:
        text = f"column {path} is in one of more than {_MAX_ONEOFS} oneofs of a message"
        raise Unfit(text, "leave the column out of the result, or write with another schema")
    return node._replace(null_branch=_EXPLICIT, value_branch=shared)


def _field(field: FieldDescriptor, kind: pa.DataType, path: str, depth: int) -> Node:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        if not pa.types.is_map(kind):
            raise _unfit(path, kind, "a map", "")
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        entry = (
            _single(key, kind.key_type, f"{path}{{}}", depth), _single(value, kind.item_type, f"{path}{{}}", depth)
        )  # fmt: skip
        return Node("map", "map", text=_tag(field, _SIZED), path=path, children=(entry[0], entry[1]._replace(column=1)))
    if not field.is_repeated:
        return _single(field, kind, path, depth)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise _unfit(path, kind, f"a list of {_shown(field)}", "")
    item = _single(field, kind.value_type, f"{path}[]", depth)
    tag = b""
    if field.is_packed:
        item, tag = item._replace(text=b""), _tag(field, _SIZED)
    return Node("list", layout_of(kind) or "", text=tag, path=path, children=(item,))


def _single(field: FieldDescriptor, kind: pa.DataType, path: str, depth: int) -> Node:
    message = field.message_type
    if message is not None:
        return _of_message(field, message, kind, path, depth)
    write, wire, kinds, cast, unsigned = _PLAIN[field.type]
    layout = layout_of(kind)
    fits = kind in kinds or (unsigned == 64 and pa.types.is_decimal128(kind) and kind.scale == 0)
    number = unsigned
    if write == "bytes" and pa.types.is_fixed_size_binary(kind):
        fits, number = True, kind.byte_width
    if kind == pa.null() and field.has_presence:
        fits = True
    if not fits or layout is None:
        raise _unfit(path, kind, _shown(field), cast)
    symbols: tuple[Node, ...] = ()
    if field.enum_type is not None:
        symbols = tuple(
            Node("constant", "none", number=value.number, text=value.name.encode()) for value in field.enum_type.values
        )
    return Node(write, layout, number=number, text=_tag(field, wire), path=path, children=symbols)


def _of_message(field: FieldDescriptor, message: Message, kind: pa.DataType, path: str, depth: int) -> Node:
    if field.type == FieldDescriptor.TYPE_GROUP:
        text = f"column {path} has the group {field.name} in the schema, which the sink does not write"
        raise Unfit(text, "leave the column out of the result, or write with another schema")
    tag, layout = _tag(field, _SIZED), layout_of(kind)
    name = message.full_name.removeprefix(_OF_GOOGLE) if message.full_name.startswith(_OF_GOOGLE) else ""
    if name in _ANY_JSON:
        text = f"column {path} has {message.full_name} in the schema, which the sink does not write"
        raise Unfit(text, "leave the column out of the result, or write with a schema that has a string in its place")
    if kind == pa.null() and field.has_presence:
        return Node("empty", "null", text=tag, path=path)
    if name == "Timestamp":
        if not (pa.types.is_timestamp(kind) and kind.tz):
            raise _unfit(path, kind, message.full_name, "TIMESTAMP")
        return Node("moment", "int64", number=UNITS[kind.unit], text=tag, path=path)
    if name == "Empty":
        if kind != pa.bool_():
            raise _unfit(path, kind, message.full_name, "BOOLEAN")
        return Node("empty", "bool", text=tag, path=path)
    if name in _WRAPPERS:
        inner = _single(message.fields_by_name["value"], kind, path, depth)
        inner = inner._replace(column=_SAME_ARRAY, null_branch=_IMPLICIT)
        return Node("wrapped", layout or "", text=tag, path=path, children=(inner,))
    return _message(message, kind, path, depth + 1)._replace(text=tag)


def _tag(field: FieldDescriptor, wire: int) -> bytes:
    return _varint(int(field.number) << 3 | wire)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _shown(field: Any) -> str:
    """The type as a schema names it."""
    if field.enum_type is not None:
        return f"the enum {field.enum_type.full_name}"
    return _NAMES[field.type] if field.message_type is None else f"the message {field.message_type.full_name}"


def _unfit(path: str, kind: pa.DataType, wanted: str, cast: str) -> Unfit:
    remedy = (
        f"cast it in the transform: CAST({path} AS {cast}), or write with another schema"
        if cast and not pa.types.is_nested(kind)
        else "return a column of the schema's type, or write with another schema"
    )
    return Unfit(f"column {path} is {spark_name(kind)}, and the schema has {wanted}", remedy)
