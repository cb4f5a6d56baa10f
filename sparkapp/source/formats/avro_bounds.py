"""Bounds of Avro records. Anybody who may write to a topic or register a schema can try to stop the job with a record.

fastavro reads what a record says, by recursion in C. A record of a few bytes may say that an array has 2^62 nulls. A
record of a mebibyte may contain itself half a million times, which ends the process. fastavro also passes over an
array that the reader leaves out without noticing the end of the bytes. Most schemas allow none of this: their values
cost no more than their bytes. A record of any other schema is walked over before it is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import fastavro

from sparkapp.model.errors import SchemaUnusable
from sparkapp.source.formats.avro_walk import MAX_DEPTH, SIZES, Walk
from sparkapp.source.formats.registered_records import BadRecord

_MAX_EMPTY_VALUES = 64
"""Values without any byte that a schema may have in a row."""
_MAX_DECIMAL_BYTES = 64
"""38 digits have 16 bytes. Python converts a mebibyte into a decimal number in minutes."""

AvroSchema = Any


class _Shape(NamedTuple):
    """A type.

    :param depth: containers within each other.
    :param size: bytes of a value; None where values differ.
    :param empty_values: values without a byte that a value may have.
    """

    depth: int = 0
    size: int | None = None
    empty_values: int = 0


def check_of(
    schema: AvroSchema, named: Mapping[str, AvroSchema], where: str, *, skips: bool
) -> Callable[[bytes, int], None] | None:
    """The check of the records of a writer's schema; None where the schema itself bounds them.

    :param schema: as fastavro has parsed it.
    :param named: the named types that it refers to, by full name.
    :param skips: the reader's schema is another schema, so that fields may be left out.
    :returns: a function of the bytes and the position of the record; it raises :class:`BadRecord`.
    :raises SchemaUnusable: the schema is nested too deeply.
    """
    shapes = _Shapes(named, skips=skips)
    try:
        depth = shapes.of(schema).depth
    except RecursionError:
        depth = MAX_DEPTH + 1
    if depth > MAX_DEPTH:
        msg = f"{where} is nested more than {MAX_DEPTH} times"
        raise SchemaUnusable(msg)
    if shapes.bounded:
        return None

    def check(value: bytes, start: int) -> None:
        Walk(named, value, start, size_of=lambda kind: shapes.of(kind).size).over(schema)

    return check


class _Shapes:
    """Judges each type of a schema once.

    :ivar bounded: False where a record may have more values than :class:`Walk` allows.
    """

    def __init__(self, named: Mapping[str, AvroSchema], *, skips: bool) -> None:
        self._named = named
        self._skips = skips
        self._known: dict[str, _Shape | None] = {}
        self.bounded = True

    def of(self, schema: AvroSchema) -> _Shape:
        if isinstance(schema, list):
            branches = [self.of(branch) for branch in schema]
            return _Shape(
                max((shape.depth for shape in branches), default=0), None,
                max((shape.empty_values for shape in branches), default=0),
            )  # fmt: skip
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            return self.of(kind)
        if isinstance(schema, dict) and "name" in schema:
            return self._named_type(schema)
        if kind in {"array", "map"}:
            items = self.of(schema["items" if kind == "array" else "values"])
            if kind == "array" and (items.size == 0 or (self._skips and items.size is not None)):
                self.bounded = False
            return _Shape(1 + items.depth)
        if kind in self._named:
            return self._named_type(self._named[kind])
        return _Shape(0, SIZES.get(kind), int(kind == "null"))

    def _named_type(self, schema: AvroSchema) -> _Shape:
        name = schema["name"]
        if name in self._known:
            known = self._known[name]
            if known is None:  # it contains itself
                self.bounded = False
            return known or _Shape()
        self._known[name] = None
        shape = self._known[name] = self._record(schema) if "fields" in schema else self._leaf(schema)
        if shape.empty_values > _MAX_EMPTY_VALUES:
            self.bounded = False
        return shape

    def _record(self, schema: AvroSchema) -> _Shape:
        fields = [self.of(field["type"]) for field in schema["fields"]]
        sizes = [shape.size for shape in fields]
        return _Shape(
            1 + max((shape.depth for shape in fields), default=0),
            None if None in sizes else sum(size or 0 for size in sizes),
            sum(shape.empty_values for shape in fields) or int(not fields),
        )

    @staticmethod
    def _leaf(schema: AvroSchema) -> _Shape:
        size = schema["size"] if schema["type"] == "fixed" else None
        return _Shape(0, size, int(size == 0))


def limit_decimals() -> None:
    """Limits bytes and digits of decimals in fastavro's readers of logical types; called once, when the decoder is
    loaded."""
    readers = fastavro.read.LOGICAL_READERS
    for kind in ("bytes-decimal", "fixed-decimal"):
        readers[kind] = _limited(readers[kind])


def _limited(read: Callable[..., Any]) -> Callable[..., Any]:
    def limited(data: bytes, writer: Mapping[str, Any], *reader: Any) -> Any:
        if len(data) > _MAX_DECIMAL_BYTES:
            msg = f"a decimal of {len(data)} bytes"
            raise BadRecord(msg)
        number = read(data, writer, *reader)
        # fastavro rounds it to the precision, which leaves the place of its first digit or moves it up.
        if number.adjusted() + writer.get("scale", 0) >= writer["precision"]:
            msg = f"a decimal with more digits than the {writer['precision']} of its writer's schema"
            raise BadRecord(msg)
        return number

    return limited
