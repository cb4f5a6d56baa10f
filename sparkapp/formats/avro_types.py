"""Avro schemas: parsed for reading, and as Arrow types.

Logical types come from the reader's schema alone and apply to whole columns. They are removed from both schemas, so
that fastavro creates plain numbers and no object for each value. Only ``decimal`` stays, because its scale belongs to
the writer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import fastavro
import pyarrow as pa

from sparkapp.model.errors import SchemaUnusable

AvroSchema = Any
"""A schema as parsed JSON: a name, an object, or a list for a union."""

_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
"""Logical types of Spark's own Avro source; any other value is read as the annotated type."""
_WIDER: Mapping[frozenset[str], str] = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
_KINDS = frozenset({*_PLAIN, "null", "record", "error", "enum", "array", "map", "fixed"})
_MAX_PRECISION = 38
_KEPT = "decimal"
_NAME_A_TYPE = "set spec.source.format.valueSchema (or keySchema) to the whole schema of one of them"


def load(text: str, where: str) -> AvroSchema:
    """Parses the JSON of a schema; a bare type name is valid, too.

    ``{"type": T}`` becomes T, where T is a schema or the name of a type: Java reads it so, and fastavro refuses it.

    :raises SchemaUnusable: invalid JSON; the message names ``where`` the schema comes from.
    """
    try:
        return _unwrapped(json.loads(text))
    except (ValueError, RecursionError) as error:
        msg = f"{where} is not an Avro schema in JSON: {error}"
        raise SchemaUnusable(msg) from error


def parse(schema: AvroSchema, where: str, named: dict[str, Any] | None = None) -> AvroSchema:
    """The schema in fastavro's form, for reading.

    :param named: types that the schema refers to by name; the schema's own types are added.
    :raises SchemaUnusable: it is not an Avro schema.
    """
    try:
        return fastavro.parse_schema(_without_logical_types(schema), {} if named is None else named)
    except Exception as error:  # fastavro raises KeyError, TypeError and its own errors
        raise not_avro(where, error) from error


def arrow_type(schema: AvroSchema, where: str) -> pa.DataType:
    """Arrow type of a column of the schema's values.

    :raises SchemaUnusable: a union of several types, a recursive type, or a decimal beyond 38 digits.
    """
    try:
        # Parsed again with logical types: fastavro adds the namespace to every name.
        full = fastavro.parse_schema(schema, {})
    except Exception as error:
        raise not_avro(where, error) from error
    return _Types(where).of(full, "", ())


def not_avro(where: str, error: Exception) -> SchemaUnusable:
    """The error for a schema that fastavro refuses."""
    return SchemaUnusable(f"{where} is not an Avro schema: {type(error).__name__}: {error}")


class _Types:
    def __init__(self, where: str) -> None:
        self._where = where
        self._named: dict[str, AvroSchema] = {}

    def of(self, schema: AvroSchema, path: str, inside: tuple[str, ...]) -> pa.DataType:
        if isinstance(schema, list):
            return self._union(schema, path, inside)
        if isinstance(schema, str):
            return self._by_name(schema, path, inside)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind, path, inside)
        makers: Mapping[str, Callable[[], pa.DataType]] = {
            "record": lambda: self._record(schema, path, inside),
            "error": lambda: self._record(schema, path, inside),
            "array": lambda: pa.list_(self.of(schema["items"], f"{path}[]", inside)),
            "map": lambda: pa.map_(pa.string(), self.of(schema["values"], f"{path}{{}}", inside)),
            "enum": lambda: self._remembered(schema, pa.string()),
            "fixed": lambda: self._remembered(schema, self._decimal(schema, path) or pa.binary()),
            "bytes": lambda: self._decimal(schema, path) or pa.binary(),
        }
        if kind in makers:
            return makers[kind]()
        return _LOGICAL.get((kind, schema.get("logicalType", ""))) or self.of(kind, path, inside)

    def _by_name(self, name: str, path: str, inside: tuple[str, ...]) -> pa.DataType:
        if name in _PLAIN:
            return _PLAIN[name]
        if name in inside:
            self._refuse(path, f"contains itself ({name})")
        if name not in self._named:
            self._refuse(path, f"has the type {name!r}, which has no counterpart")
        return self.of(self._named[name], path, inside)

    def _record(self, schema: AvroSchema, path: str, inside: tuple[str, ...]) -> pa.DataType:
        self._named[schema["name"]] = schema
        deeper = (*inside, schema["name"])
        dot = "." if path else ""
        fields = [
            pa.field(field["name"], self.of(field["type"], f"{path}{dot}{field['name']}", deeper))
            for field in schema["fields"]
        ]
        if not fields:
            self._refuse(path, "is a record without fields")
        return pa.struct(fields)

    def _union(self, branches: list[AvroSchema], path: str, inside: tuple[str, ...]) -> pa.DataType:
        kinds = [branch for branch in branches if branch != "null"]
        if len(kinds) == 1:
            return self.of(kinds[0], path, inside)
        wider = (
            _WIDER.get(frozenset(branch for branch in kinds if isinstance(branch, str))) if len(kinds) == 2 else None
        )
        if wider is None:
            self._refuse(path, f"is a union of {len(kinds)} types", remedy=None if path else _NAME_A_TYPE)
        return _PLAIN[wider]

    def _decimal(self, schema: AvroSchema, path: str) -> pa.DataType | None:
        if schema.get("logicalType") != _KEPT:
            return None
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not 0 < precision <= _MAX_PRECISION or not 0 <= scale <= precision:
            self._refuse(path, f"is a decimal({precision}, {scale}): at most {_MAX_PRECISION} digits are possible")
        return pa.decimal128(precision, scale)

    def _remembered(self, schema: AvroSchema, kind: pa.DataType) -> pa.DataType:
        self._named[schema["name"]] = schema
        return kind

    def _refuse(self, path: str, what: str, *, remedy: str | None = None) -> NoReturn:
        msg = f"{self._where}: {path or 'the schema itself'} {what}"
        raise SchemaUnusable(msg, remedy=remedy)


def _unwrapped(schema: AvroSchema) -> AvroSchema:
    if isinstance(schema, list):
        return [_unwrapped(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if isinstance(kind, dict | list) or (isinstance(kind, str) and kind not in _KINDS):
        return _unwrapped(kind)
    found = {**schema, **{name: _unwrapped(schema[name]) for name in ("items", "values") if name in schema}}
    if isinstance(schema.get("fields"), list):
        found["fields"] = [
            {**field, "type": _unwrapped(field["type"])} if isinstance(field, dict) and "type" in field else field
            for field in schema["fields"]
        ]
    return found


def _without_logical_types(schema: AvroSchema) -> AvroSchema:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name != "logicalType" or value == _KEPT}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _without_logical_types(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_without_logical_types(field) for field in kept["fields"]]
    return kept
