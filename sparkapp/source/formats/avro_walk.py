"""A walk over the bytes of an Avro record, which creates no values and knows no recursion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from sparkapp.source.formats.registered_records import BadRecord

MAX_DEPTH = 100
"""Containers within each other: the limit of Protobuf's parsers, for a record and for a schema."""
FREE_VALUES, VALUES_PER_BYTE = 1000, 64
"""Values that a record may have: the first number, and the second for each byte."""
SIZES: Mapping[str, int] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""Bytes of the types whose values all have the same."""

AvroSchema = Any
_BLOCKS = -1
"""In place of a number of values: the blocks of an array or a map follow."""
_MAX_VARINT = 10
_VARINTS = frozenset({"int", "long", "enum"})
_LENGTHS = frozenset({"bytes", "string"})


class Walk:
    """The walk over a record. Called by the decoder before fastavro reads the record.

    :param named: the named types of the schema, by full name.
    :param start: position of the record.
    :param size_of: bytes of each value of a type; None where they differ.
    """

    def __init__(
        self,
        named: Mapping[str, AvroSchema],
        value: bytes,
        start: int,
        *,
        size_of: Callable[[AvroSchema], int | None],
    ) -> None:
        self._named = named
        self._value = value
        self._at = start
        self._size_of = size_of
        self._left = FREE_VALUES + VALUES_PER_BYTE * len(value)
        # A type, its depth, and how many values of it follow. A map's entry is its type in a tuple.
        self._waiting: list[tuple[AvroSchema, int, int]] = []

    def over(self, schema: AvroSchema) -> None:
        """:raises BadRecord: too deep, too many values, or bytes that end too early."""
        self._waiting.append((schema, 0, 1))
        while self._waiting:
            kind, depth, times = self._waiting.pop()
            if depth > MAX_DEPTH:
                _refuse(f"its values are nested more than {MAX_DEPTH} times")
            if times == _BLOCKS:
                self._block(kind, depth)
            elif not self._passed_at_once(kind, times):
                if times > 1:
                    self._waiting.append((kind, depth, times - 1))
                self._single(kind, depth)
            self._spend(1)

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            _refuse(f"it has more than {VALUES_PER_BYTE} values for each of its bytes")
        if self._at > len(self._value):
            _refuse("it ends too early")

    def _block(self, kind: AvroSchema, depth: int) -> None:
        """The number of values in a block; 0 ends the blocks."""
        count = self._varint()
        if count < 0:
            self._varint()  # the block's size in bytes
        if count:
            items = kind["items"] if kind["type"] == "array" else (kind["values"],)
            self._waiting += [(kind, depth, _BLOCKS), (items, depth + 1, abs(count))]

    def _passed_at_once(self, kind: AvroSchema, times: int) -> bool:
        """Passes over many values of the same size; False where there are none."""
        size = None if times == 1 or isinstance(kind, tuple) else self._size_of(kind)
        if size is None:
            return False
        self._at += size * times
        self._spend(0 if size else times)
        return True

    def _single(self, kind: AvroSchema, depth: int) -> None:
        if isinstance(kind, tuple):
            self._skip_length()
            kind = kind[0]
        while isinstance(kind, dict) and not isinstance(kind["type"], str):
            kind = kind["type"]
        if isinstance(kind, str):
            kind = self._named.get(kind, kind)
        if isinstance(kind, list):
            self._branch(kind, depth)
        elif isinstance(kind, dict) and "fields" in kind:
            self._waiting += [(field["type"], depth + 1, 1) for field in reversed(kind["fields"])]
        elif isinstance(kind, dict) and kind["type"] in {"array", "map"}:
            self._waiting.append((kind, depth, _BLOCKS))
        else:
            self._leaf(kind)

    def _branch(self, kind: list[AvroSchema], depth: int) -> None:
        index = self._varint()
        if not 0 <= index < len(kind):
            _refuse(f"a union of {len(kind)} types has no type {index}")
        self._waiting.append((kind[index], depth, 1))

    def _leaf(self, kind: AvroSchema) -> None:
        name = kind if isinstance(kind, str) else kind["type"]
        if name in _LENGTHS:
            self._skip_length()
        elif name in _VARINTS:
            self._varint()
        else:
            self._at += kind["size"] if name == "fixed" else SIZES[name]

    def _skip_length(self) -> None:
        length = self._varint()
        if length < 0:
            _refuse(f"a length of {length} bytes")
        self._at += length

    def _varint(self) -> int:
        """A number of 64 bits, as fastavro reads it."""
        number = 0
        for shift, byte in enumerate(self._value[self._at : self._at + _MAX_VARINT]):
            number |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                self._at += shift + 1
                number &= (1 << 64) - 1
                return (number >> 1) ^ -(number & 1)
        msg = "a number has no end"
        raise BadRecord(msg)


def _refuse(message: str) -> NoReturn:
    raise BadRecord(message)
