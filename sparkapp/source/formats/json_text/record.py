"""A record in JSON as Spark's ``from_json`` reads it: slow, and complete.

The functions take tokens as the converters of Spark take those of Jackson.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from sparkapp.model.encoding.json_columns import JsonType
from sparkapp.model.encoding.json_columns import Kind as Column
from sparkapp.source.formats.json_text.java_text import as_utf8, decoded, length, quoted
from sparkapp.source.formats.json_text.tokens import MAX_STRING, Kind, NotJson, Token, tokens

Tokens = Iterator[Token]
_BITS = {Column.TINYINT: 8, Column.SMALLINT: 16, Column.INT: 32, Column.BIGINT: 64}
_TEXTS = frozenset({"NaN", "Infinity", "+INF", "+Infinity", "-INF", "-Infinity"})
"""The strings that a DOUBLE takes."""
_CLOSING = frozenset({Kind.CLOSE_OBJECT, Kind.CLOSE_ARRAY})


class DoesNotFit(Exception):
    """The value is JSON, and not of the type."""


class FractionAsText(Exception):
    """A STRING has a number with a fraction: its digits are a matter of the Java release."""


def read_record(value: bytes, columns: JsonType) -> dict[str, Any]:
    """The columns of a value.

    :param columns: a struct.
    :raises NotJson: the value is not JSON, or exceeds a limit.
    :raises DoesNotFit: it is not an object of these columns.
    :raises FractionAsText: as the class says.
    """
    stream = tokens(decoded(value))
    token = next(stream)
    if token[0] is not Kind.OPEN_OBJECT:
        raise DoesNotFit
    return _struct(columns, stream, token)


def _read(kind: JsonType, stream: Tokens, token: Token) -> Any:
    if token[0] is Kind.NULL:
        return None
    return _READERS[kind.kind](kind, stream, token)


def _struct(kind: JsonType, stream: Tokens, token: Token) -> dict[str, Any]:
    if token[0] is not Kind.OPEN_OBJECT:
        raise DoesNotFit
    types = dict(kind.fields)
    found: dict[str, Any] = dict.fromkeys(types)
    for token_kind, name in stream:
        if token_kind is Kind.CLOSE_OBJECT:
            break
        value = next(stream)
        if name in types:
            found[name] = _read(types[name], stream, value)
        else:
            _skip(stream, value)
    return found


def _array(kind: JsonType, stream: Tokens, token: Token) -> list[Any]:
    if token[0] is not Kind.OPEN_ARRAY:
        raise DoesNotFit
    assert kind.element is not None
    found = []
    for element in stream:
        if element[0] is Kind.CLOSE_ARRAY:
            break
        found.append(_read(kind.element, stream, element))
    return found


def _skip(stream: Tokens, token: Token) -> None:
    depth = int(token[0] in (Kind.OPEN_OBJECT, Kind.OPEN_ARRAY))
    while depth:
        kind, _ = next(stream)
        depth += (kind in (Kind.OPEN_OBJECT, Kind.OPEN_ARRAY)) - (kind in _CLOSING)


def _boolean(_kind: JsonType, _stream: Tokens, token: Token) -> bool:
    if token[0] is not Kind.BOOLEAN:
        raise DoesNotFit
    return token[1] == "true"


def _integer(kind: JsonType, _stream: Tokens, token: Token) -> int:
    if token[0] is not Kind.INTEGER:
        raise DoesNotFit
    number, bound = int(token[1]), 1 << (_BITS[kind.kind] - 1)
    if kind.kind is Column.TINYINT and bound <= number < 2 * bound:
        return number - 2 * bound  # Jackson takes a byte without a sign
    if not -bound <= number < bound:
        raise DoesNotFit
    return number


def _double(_kind: JsonType, _stream: Tokens, token: Token) -> float:
    kind, text = token
    if kind is Kind.INTEGER:
        return float(text) + 0.0  # an integer has no negative zero
    if kind is Kind.FRACTION or (kind is Kind.STRING and text in _TEXTS):
        return float(text)
    raise DoesNotFit


def _string(_kind: JsonType, stream: Tokens, token: Token) -> str:
    if token[0] is Kind.STRING:
        return as_utf8(_limited(token[1]))
    return as_utf8("".join(_copied(stream, token)))


def _copied(stream: Tokens, token: Token) -> Iterator[str]:
    """A value as Jackson's generator writes it."""
    depth, needs_comma = 0, False
    while True:
        kind, text = token
        if kind in _CLOSING:
            yield kind.value
            depth -= 1
            needs_comma = True
        else:
            yield "," if needs_comma else ""
            needs_comma = kind not in (Kind.OPEN_OBJECT, Kind.OPEN_ARRAY, Kind.NAME)
            depth += kind in (Kind.OPEN_OBJECT, Kind.OPEN_ARRAY)
            if kind is Kind.FRACTION:
                raise FractionAsText
            yield _WRITERS[kind](text)
        if not depth:
            return
        token = next(stream)


def _limited(text: str) -> str:
    if length(text) > MAX_STRING:
        raise NotJson
    return text


def _sign(kind: Kind, _text: str) -> str:
    return kind.value


_WRITERS: Mapping[Kind, Callable[[str], str]] = {
    Kind.OPEN_OBJECT: partial(_sign, Kind.OPEN_OBJECT),
    Kind.OPEN_ARRAY: partial(_sign, Kind.OPEN_ARRAY),
    Kind.NAME: lambda text: quoted(text) + ":",
    Kind.STRING: lambda text: quoted(_limited(text)),
    Kind.INTEGER: lambda text: str(int(text)),
    Kind.FRACTION: str,
    Kind.BOOLEAN: str,
    Kind.NULL: lambda _: "null",
}
_READERS: Mapping[Column, Callable[[JsonType, Tokens, Token], Any]] = {
    Column.BOOLEAN: _boolean,
    **dict.fromkeys(_BITS, _integer),
    Column.DOUBLE: _double,
    Column.STRING: _string,
    Column.STRUCT: _struct,
    Column.ARRAY: _array,
}
