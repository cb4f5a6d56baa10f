"""The columns of ``source.format: json`` that both engines read alike, from Spark's DDL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from sparkapp.model.errors import InvalidArgument


class Kind(StrEnum):
    """The types, under Spark's names."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    STRUCT = "STRUCT"
    ARRAY = "ARRAY"


@dataclass(frozen=True, slots=True)
class JsonType:
    """A type.

    :param fields: of a struct, by name.
    :param element: of an array.
    """

    kind: Kind
    fields: tuple[tuple[str, JsonType], ...] = ()
    element: JsonType | None = None


_OTHER_NAMES = {"BYTE": Kind.TINYINT, "SHORT": Kind.SMALLINT, "INTEGER": Kind.INT, "LONG": Kind.BIGINT}
_WORD = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|`([^`]+)`|([<>:,]))")
_MAX_DEPTH = 50


def columns_of(schema: str) -> JsonType:
    """The struct of a DDL, for instance ``id BIGINT, customer STRUCT<name: STRING>``.

    :raises InvalidArgument: the DDL has a type or a form that is not here. Spark may understand it.
    """
    parser = _Parser(schema)
    columns = parser.fields(0)
    parser.take(None)
    return columns


class _Parser:
    def __init__(self, schema: str) -> None:
        self._schema = schema.rstrip()
        self._at = 0

    def fields(self, depth: int) -> JsonType:
        """A struct of the fields that follow."""
        found: list[tuple[str, JsonType]] = []
        while True:
            name, _, sign = self._next()
            if not name:
                raise self._refusal(sign or "its end")
            if self._peek() == ":":
                self._next()
            found.append((name, self._type(depth + 1)))
            if self._peek() != ",":
                break
            self._next()
        if len({name.casefold() for name, _ in found}) < len(found):
            raise self._refusal("a name that is there twice")
        return JsonType(Kind.STRUCT, tuple(found))

    def take(self, sign: str | None) -> None:
        """The sign, or the end."""
        if self._peek() != sign:
            raise self._refusal(repr(self._schema[self._at :].strip()[:20]))
        if sign is not None:
            self._next()

    def _type(self, depth: int) -> JsonType:
        word, is_quoted, sign = self._next()
        name = word.upper()
        if is_quoted or not word or depth > _MAX_DEPTH:
            raise self._refusal(word or sign or "its end")
        if name in _OTHER_NAMES:
            return JsonType(_OTHER_NAMES[name])
        if name not in Kind.__members__:
            raise self._refusal(name)
        kind = Kind(name)
        if kind not in (Kind.STRUCT, Kind.ARRAY):
            return JsonType(kind)
        self.take("<")
        if kind is Kind.STRUCT:
            struct = self.fields(depth)
            self.take(">")
            return struct
        element = self._type(depth + 1)
        self.take(">")
        return JsonType(kind, element=element)

    def _peek(self) -> str | None:
        at = self._at
        word, _, sign = self._next()
        self._at = at
        return sign or word or None

    def _next(self) -> tuple[str, bool, str]:
        """A name, whether it was in backquotes, or a sign; all empty at the end."""
        if self._at == len(self._schema):
            return "", False, ""
        found = _WORD.match(self._schema, self._at)
        if found is None:
            raise self._refusal(repr(self._schema[self._at :].strip()[:20]))
        self._at = found.end()
        return found[1] or found[2] or "", found[2] is not None, found[3] or ""

    def _refusal(self, what: str) -> InvalidArgument:
        return InvalidArgument(f"with {what}")
