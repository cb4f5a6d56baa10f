"""Text as Java has it: how it decodes bytes, and what its strings become as UTF-8."""

from __future__ import annotations

import re

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_PLAIN = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def decoded(value: bytes) -> str:
    """The text of a value. Bytes that are not UTF-8 become U+FFFD, as often as in Java's decoder."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        # Java takes an encoded surrogate for one malformed character, Python for as many as it has bytes.
        return _ENCODED_SURROGATE.sub("\ufffd".encode(), value).decode(errors="replace")


def as_utf8(text: str) -> str:
    """The text with each pair of surrogates as its one character, and a question mark for each other surrogate."""
    paired = _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
    return _SURROGATE.sub("?", paired)


def quoted(text: str) -> str:
    """A string of JSON as Jackson's generator writes it to UTF-8."""
    return f'"{_NOT_PLAIN.sub(_escaped, text)}"'


def length(text: str) -> int:
    """The characters of the text as Java counts them, in UTF-16."""
    return len(text) + sum(each > "\uffff" for each in text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
