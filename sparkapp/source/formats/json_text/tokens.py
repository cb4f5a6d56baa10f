"""The tokens of a JSON text, as Jackson reads them with the options of Spark's ``from_json``.

It differs from JSON: single quotes are taken, and ``NaN`` and ``Infinity`` are numbers. What follows the first value
is not read. Limits are those of Jackson's ``StreamReadConstraints``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from sparkapp.source.formats.json_text.java_text import length

MAX_DEPTH = 1000
MAX_NUMBER = 1000
MAX_NAME = 50_000
MAX_STRING = 20_000_000


class Kind(Enum):
    """What a token is; that of a number is by its text, and not by its value."""

    OPEN_OBJECT = "{"
    CLOSE_OBJECT = "}"
    OPEN_ARRAY = "["
    CLOSE_ARRAY = "]"
    NAME = "name"
    STRING = "string"
    INTEGER = "integer"
    FRACTION = "fraction"
    BOOLEAN = "boolean"
    NULL = "null"


Token = tuple[Kind, str]
"""The kind and the text: decoded for a name or a string, otherwise as it was written."""


class NotJson(Exception):
    """The text is not JSON, or exceeds a limit."""


_SPACE = re.compile(r"[ \t\r\n]*")
_STRINGS = {
    '"': re.compile(r'"((?:[^"\\\x00-\x1f]|\\.)*+)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\\x00-\x1f]|\\.)*+)'", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*+)(?![0-9])(\.[0-9]++)?([eE][+-]?[0-9]++)?(?![.eE])")
_WORD = re.compile(r"(?:true|false|null|NaN|Infinity|[+-](?:Infinity|INF))(?![\w$])")
_WORDS = {"true": Kind.BOOLEAN, "false": Kind.BOOLEAN, "null": Kind.NULL}
_CLOSING = {Kind.OPEN_OBJECT: Kind.CLOSE_OBJECT, Kind.OPEN_ARRAY: Kind.CLOSE_ARRAY}


def tokens(text: str) -> Iterator[Token]:
    """The tokens of the first value in the text.

    :raises NotJson: at the token that is wrong.
    """
    open_: list[Kind] = []
    at = _after_space(text, 0)
    while True:
        kind, word, at = _value(text, at)
        yield kind, word
        if kind in _CLOSING:
            open_.append(kind)
            if len(open_) > MAX_DEPTH:
                raise NotJson
            at = _after_space(text, at)
            is_empty = text.startswith(_CLOSING[kind].value, at)
        if kind not in _CLOSING or is_empty:
            while open_ and text.startswith(_CLOSING[open_[-1]].value, at := _after_space(text, at)):
                yield _CLOSING[open_.pop()], ""
                at += 1
            if not open_:
                return
            if not text.startswith(",", at):
                raise NotJson
            at = _after_space(text, at + 1)
        if open_[-1] is Kind.OPEN_OBJECT:
            name, at = _name(text, at)
            yield Kind.NAME, name


def _name(text: str, at: int) -> tuple[str, int]:
    """The name and the place of its value."""
    name, at = _string(text, at)
    at = _after_space(text, at)
    if length(name) > MAX_NAME or not text.startswith(":", at):
        raise NotJson
    return name, _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # it matches nothing, too
    return found.end()


def _value(text: str, at: int) -> tuple[Kind, str, int]:
    first = text[at : at + 1]
    if first in ("{", "["):
        return Kind(first), "", at + 1
    if first in _STRINGS:
        string, end = _string(text, at)
        return Kind.STRING, string, end
    number = _NUMBER.match(text, at)
    if number is not None:
        kind = Kind.INTEGER if number[2] is None and number[3] is None else Kind.FRACTION
        # Jackson does not count the zero in front of a point.
        if number.end() - at > MAX_NUMBER and sum(map(str.isdigit, number[0])) - (number[1] == "0") > MAX_NUMBER:
            raise NotJson
        return kind, number[0], number.end()
    word = _WORD.match(text, at)
    if word is None:
        raise NotJson
    return _WORDS.get(word[0], Kind.FRACTION), word[0], word.end()


def _string(text: str, at: int) -> tuple[str, int]:
    pattern = _STRINGS.get(text[at : at + 1])
    found = pattern.match(text, at) if pattern is not None else None
    if found is None:
        raise NotJson
    body = found[1]
    return (_ESCAPE.sub(_unescaped, body) if "\\" in body else body), found.end()


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    try:
        return _ESCAPED[escape[2]]
    except KeyError:
        raise NotJson from None
