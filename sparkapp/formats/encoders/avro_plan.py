"""Avro of a column, by a writer schema: each field of the schema takes the column of its name."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from sparkapp.formats.avro_types import AvroSchema, not_avro
from sparkapp.formats.encoders.plan import MAX_DEPTH, UNITS, Node, Unfit, inner_path, layout_of, spark_name

_SMALL = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()})
_WHOLE = _SMALL | {pa.int64(), pa.uint32(), pa.uint64()}
_TEXTS = frozenset({pa.string(), pa.large_string()})
_BYTES = frozenset({pa.binary(), pa.large_binary()})
_PLAIN: Mapping[str, tuple[str, frozenset[pa.DataType], str]] = {
    "boolean": ("boolean", frozenset({pa.bool_()}), "BOOLEAN"),
    "int": ("integer", _SMALL, "INT"),
    "long": ("integer", _WHOLE, "BIGINT"),
    "float": ("float", frozenset({pa.float32()}), "FLOAT"),
    "double": ("double", _SMALL | {pa.uint32(), pa.float32(), pa.float64()}, "DOUBLE"),
    "string": ("text", _TEXTS, "STRING"),
    "enum": ("symbol", _TEXTS, "STRING"),
    "bytes": ("bytes", _BYTES, "BINARY"),
    "fixed": ("fixed", _BYTES, "BINARY"),
}
"""How a type is written, of which columns, and what a query casts to."""
_TIMESTAMPS = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}
_TIMES = {"time-millis": pa.time32("ms"), "time-micros": pa.time64("us")}
_ANY_SIZE = 1 << 30
_ADD_COLUMN = "return the column, or give the field a default in the schema"


def avro_plan(schema: AvroSchema, kind: pa.DataType, path: str, where: str) -> Node:
    """The plan of a column.

    :param schema: with the definitions of its named types.
    :param path: of the column; empty for a record of several columns.
    :param where: name of the schema in messages.
    :raises Unfit: the column does not fit the schema.
    :raises SchemaUnusable: it is no schema.
    """
    named: dict[str, AvroSchema] = {}
    try:
        parsed = fastavro.parse_schema(schema, named)
    except Exception as error:  # fastavro raises KeyError, TypeError and its own errors
        raise not_avro(where, error) from error
    return _Planner(named).of(parsed, kind, path, 0)


def record_name(schema: AvroSchema, where: str) -> str:
    """The full name of a schema's record.

    :raises SchemaUnusable: it is no schema, or has no name.
    """
    try:
        name: str = fastavro.parse_schema(schema, {})["name"]
    except Exception as error:
        raise not_avro(where, error) from error
    return name


class _Planner:
    def __init__(self, named: Mapping[str, AvroSchema]) -> None:
        self._named = named

    def of(self, schema: AvroSchema, kind: pa.DataType, path: str, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise Unfit(f"column {path} is nested more than {MAX_DEPTH} times", "return a column with fewer levels")
        if isinstance(schema, list):
            return self._union(schema, kind, path, depth)
        schema = self._defined(schema)
        name = schema["type"]
        if not isinstance(name, str):
            return self.of(name, kind, path, depth)
        if name in ("record", "error"):
            return self._record(schema, kind, path, depth)
        if name == "array" and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            item = self.of(schema["items"], kind.value_type, f"{path}[]", depth + 1)
            return self._node("list", kind, path)._replace(children=(item,))
        if name == "map" and pa.types.is_map(kind) and kind.key_type in _TEXTS:
            key = self._node("text", kind.key_type, path)
            value = self.of(schema["values"], kind.item_type, f"{path}{{}}", depth + 1)._replace(column=1)
            return self._node("map", kind, path)._replace(children=(key, value))
        found = self._logical(schema, name, kind, path) or self._plain(schema, name, kind, path)
        if found is None:
            text = f"column {path or 'value'} is {spark_name(kind)}, and the schema has {_shown(schema)}"
            raise Unfit(text, self._remedy(schema, name, path or "value"))
        return found

    def _defined(self, schema: AvroSchema) -> dict[str, Any]:
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        found: dict[str, Any] = schema
        return found

    def _node(self, write: str, kind: pa.DataType, path: str) -> Node:
        layout = layout_of(kind)
        assert layout is not None, "a type of the tables"
        return Node(write, layout, path=path)

    def _union(self, branches: list[AvroSchema], kind: pa.DataType, path: str, depth: int) -> Node:
        null = branches.index("null") if "null" in branches else -1
        if kind == pa.null() and null >= 0:
            return Node("constant", "none", text=bytes([2 * null]), path=path)
        refusals = []
        for index, branch in enumerate(branches):
            if branch == "null":
                continue
            try:
                return self.of(branch, kind, path, depth)._replace(null_branch=null, value_branch=index)
            except Unfit as unfit:
                refusals.append(unfit)
        if len(refusals) == 1:
            raise refusals[0]
        text = f"column {path or 'value'} is {spark_name(kind)}, and the schema has a union of other types"
        raise Unfit(text, "cast the column to a type of the union")

    def _record(self, schema: dict[str, Any], kind: pa.DataType, path: str, depth: int) -> Node:
        if not pa.types.is_struct(kind):
            text = f"column {path or 'value'} is {spark_name(kind)}, and the schema has the record {schema['name']}"
            raise Unfit(text, "return a struct with the record's fields, or its fields as columns")
        fields = {field["name"]: field for field in schema["fields"]}
        for field in kind:
            if field.name not in fields:
                text = f"column {inner_path(path, field.name)} has no field in the record {schema['name']}"
                raise Unfit(text, "leave the column out of the result, or add the field to the schema")
        return self._node("record", kind, path)._replace(
            children=tuple(self._field(field, kind, path, depth) for field in fields.values())
        )

    def _field(self, field: dict[str, Any], kind: pa.StructType, path: str, depth: int) -> Node:
        name = field["name"]
        inside = inner_path(path, name)
        indexes = kind.get_all_field_indices(name)
        if len(indexes) > 1:
            raise Unfit(f"column {inside} is there {len(indexes)} times", "return each column once")
        if indexes:
            return self.of(field["type"], kind.field(indexes[0]).type, inside, depth + 1)._replace(column=indexes[0])
        if "default" not in field:
            raise Unfit(f"no column {inside}, and the field of the schema has no default", _ADD_COLUMN)
        return Node("constant", "none", text=self._default(field, inside), path=inside)

    def _default(self, field: dict[str, Any], path: str) -> bytes:
        kind = field["type"]
        first = kind[0] if isinstance(kind, list) else kind
        definition, value = self._defined(first), field["default"]
        if definition["type"] in ("bytes", "fixed") and isinstance(value, str):
            value = value.encode("latin-1")
        out = BytesIO()
        try:
            # The default of a union is one of its first branch.
            fastavro.schemaless_writer(out, first if isinstance(first, dict | list) else definition, value)
        except Exception as error:
            raise Unfit(f"no column {path}, whose default cannot be written: {error}", _ADD_COLUMN) from error
        return (b"\0" if isinstance(kind, list) else b"") + out.getvalue()

    def _logical(self, schema: dict[str, Any], name: str, kind: pa.DataType, path: str) -> Node | None:
        """The node of a logical type; None where the annotated type decides."""
        logical = schema.get("logicalType", "")
        unit = _TIMESTAMPS.get(logical.removeprefix("local-"))
        if name == "long" and unit is not None and pa.types.is_timestamp(kind):
            to, by = UNITS[unit], UNITS[kind.unit]
            node = self._node("integer", kind, path)._replace(number=to // by if to >= by else -(by // to))
            return node if bool(kind.tz) is not logical.startswith("local-") else None
        if (name, logical, kind) == ("int", "date", pa.date32()) or _TIMES.get(logical) == kind:
            return self._node("integer", kind, path)
        if logical == "decimal" and pa.types.is_decimal128(kind) and kind.scale == schema.get("scale", 0):
            node = self._node("decimal", kind, path)
            node = node if name == "bytes" else node._replace(write="fixed_decimal", number=schema["size"])
            return node if kind.precision <= schema.get("precision", 0) else None
        return None

    def _plain(self, schema: dict[str, Any], name: str, kind: pa.DataType, path: str) -> Node | None:
        logical = schema.get("logicalType", "")
        is_other = logical.removeprefix("local-") in _TIMESTAMPS or logical in ("date", "decimal")
        if name not in _PLAIN or is_other:
            return None
        write, kinds, _ = _PLAIN[name]
        if pa.types.is_fixed_size_binary(kind) and name in ("bytes", "fixed"):
            fits = name == "bytes" or kind.byte_width == schema["size"]
            return self._node(write, kind, path)._replace(number=kind.byte_width) if fits else None
        if kind not in kinds:
            return None
        symbols = tuple(Node("constant", "none", text=symbol.encode()) for symbol in schema.get("symbols", ()))
        node = self._node(write, kind, path)._replace(children=symbols)
        return node._replace(number=schema["size"]) if name == "fixed" else node

    @staticmethod
    def _remedy(schema: dict[str, Any], name: str, path: str) -> str:
        logical = schema.get("logicalType", "")
        target = _PLAIN[name][2] if name in _PLAIN else ""
        if logical == "date":
            target = "DATE"
        elif logical in _TIMESTAMPS:
            target = "TIMESTAMP"
        elif logical.removeprefix("local-") in _TIMESTAMPS:
            target = "TIMESTAMP_NTZ"
        elif logical == "decimal":
            target = f"DECIMAL({schema.get('precision', 0)}, {schema.get('scale', 0)})"
        if not target:
            return f"return a column of the schema's type {name}, or write with another schema"
        return f"cast it in the transform: CAST({path} AS {target}), or write with another schema"


def _shown(schema: dict[str, Any]) -> str:
    logical = f" ({schema['logicalType']})" if schema.get("logicalType") else ""
    return f"{schema['type']}{logical}"
