"""Frozen dataclasses as JSON objects and back: the codec of every text that the programs of a job exchange (ADR 79).

These are the job's description, the checkpoint document, retained checkpoints, the driver's report, and the frames of
the control channel. The type of a field says how it is written, and :func:`stored` says what the type does not.

A field is written only where it differs from its default; a field that is not written has its default. Reader and
writer of two releases understand each other as long as no used field is unknown to the reader. The reader refuses an
unknown field by name, because to ignore it would change what a job does.

A default of such a dataclass is therefore a part of the format: it never changes, and a new field has a default.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from sparkapp.model.encoding.schema import resource_name

Part = TypeVar("Part")
Read = Callable[[Any, str], Any]
"""Reads a value of JSON. It gets the value's path for messages, and raises ValueError."""

MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1
"""The largest whole numbers of Kafka and Kubernetes."""
_KEY = "json"
_PLAIN = frozenset({int, str, bool, float, NoneType})
_NAMES = {int: "a whole number", str: "a string", bool: "true or false", dict: "an object", list: "a list"}


class Unreadable(ValueError):
    """Something is missing, or of another type; the message says where."""


class UnknownPart(Unreadable):
    """A field, or a choice of a field, that this release does not have.

    :ivar names: the fields with their paths, or the choice.
    """

    def __init__(self, names: str, message: str) -> None:
        super().__init__(message)
        self.names = names


def of_type(kind: type, value: object, path: str) -> Any:
    """:raises Unreadable: the value has another type."""
    # isinstance() takes True for a whole number; type() does not.
    if type(value) is not kind:
        msg = f"{path or 'it'} must be {_NAMES.get(kind, kind.__name__)}, not {reprlib.repr(value)}"
        raise Unreadable(msg)
    return value


def whole(value: object, path: str, low: int = 0, high: int = MAX_LONG) -> int:
    """:raises Unreadable: no whole number within the bounds."""
    if type(value) is not int or not low <= value <= high:
        msg = f"{path} must be a whole number from {low} to {high}, not {reprlib.repr(value)}"
        raise Unreadable(msg)
    return value


_TEXT: Read = partial(of_type, str)


@dataclass(frozen=True, slots=True)
class Style:
    """How the dataclasses of a text are written.

    :param name_of: key of a field that does not say its own.
    :param low: bound of whole numbers that do not say their own, and so is ``high``. None: they have no bounds.
    :param is_complete: fields that have their default are written, too.
    :param takes_unknown: unknown fields are ignored.
    :param text: reads texts.
    """

    name_of: Callable[[str], str] = str
    low: int | None = None
    high: int = MAX_LONG
    is_complete: bool = False
    takes_unknown: bool = False
    text: Read = _TEXT


PLAIN = Style()
"""Of the job's description, and of frames."""
DOCUMENT = Style(name_of=resource_name, low=0)
"""Of checkpoints: untrusted input, whose numbers Kafka's clients take."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Metadata of a dataclass field; :func:`stored` has the parameters."""

    key: str = ""
    low: int | None = None
    high: int | None = None
    is_needed: bool = False
    is_written: bool = False
    is_hidden: bool = False
    read: Read | None = None
    write: Callable[[Any], Any] | None = None


def stored(*, default: Any = MISSING, default_factory: Any = MISSING, **keywords: Any) -> Any:
    """A field of a dataclass whose JSON its type does not describe.

    :param key: in the object, by default the field's name in the text's style. ``group.key`` is in an object of its
        own, which is written whole or not at all.
    :param low: the smallest whole number. :param high: the largest.
    :param is_needed: the field is always written, and a text without it is refused. A field without a default is.
    :param is_written: the field is always written, and texts of earlier releases do not have it.
    :param is_hidden: the field is not in the object; the caller of :func:`decode_part` gives its value.
    :param read: replaces the rule for the field's type, and so does ``write``.
    """
    about = {_KEY: Stored(**keywords)}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=about)
    return field(metadata=about) if default is MISSING else field(default=default, metadata=about)


def encode_part(part: Any, style: Style = PLAIN) -> dict[str, Any]:
    """A dataclass of dataclasses, tuples, mappings and plain values, as an object for ``json.dumps``."""
    body: dict[str, Any] = {}
    for group, entries in _entries(part.__class__, style):
        written: dict[str, Any] = {}
        is_needed = not group
        for entry in entries:
            value = getattr(part, entry.name)
            differs = entry.is_written or value != entry.default
            is_needed = is_needed or differs
            if differs or group:
                written[entry.key] = value if entry.write is None else entry.write(value)
        if group and is_needed:
            body[group] = written
        elif not group:
            body = written
    return body


def decode_part(kind: Callable[..., Part], body: object, path: str, style: Style = PLAIN, **given: Any) -> Part:
    """:func:`encode_part` read back.

    :param path: where it is in the text, for messages.
    :param given: values of fields that are not read from the object.
    :raises UnknownPart: a field or a choice that this release does not have.
    :raises Unreadable: something is missing or of another type. :raises ValueError: of a field's own reader.
    """
    left = dict(of_type(dict, body, path))
    for group, entries in _entries(kind, style):
        if not group:
            _take(entries, left, path, given)
        elif group in left:
            where = _join(path, group)
            inner = dict(of_type(dict, left.pop(group), where))
            _take([entry._replace(is_needed=True) for entry in entries], inner, where, given)
            _refuse_unknown(inner, where)
    if not style.takes_unknown:
        _refuse_unknown(left, path)
    return kind(**given)


class _Entry(NamedTuple):
    """A field of a dataclass; ``default`` is MISSING where it has none, ``write`` None where a value stays as it is."""

    name: str
    key: str
    default: Any
    is_needed: bool
    is_written: bool
    read: Read
    write: Callable[[Any], Any] | None


def _take(entries: Iterable[_Entry], left: dict[str, Any], path: str, values: dict[str, Any]) -> None:
    """Moves an object's fields to the values, but those that have one."""
    for entry in entries:
        if entry.name in values:
            continue
        if entry.key in left:
            values[entry.name] = entry.read(left.pop(entry.key), _join(path, entry.key))
        elif entry.is_needed:
            msg = f"{_join(path, entry.key)} is missing"
            raise Unreadable(msg)


def _refuse_unknown(left: Mapping[str, Any], path: str) -> None:
    if left:
        names = sorted(left)
        full = ", ".join(_join(path, name) for name in names)
        raise UnknownPart(full, f"{path or 'it'} has unknown fields: {', '.join(names)}")


@cache
def _entries(kind: Any, style: Style) -> tuple[tuple[str, tuple[_Entry, ...]], ...]:
    """How each field is written and read, by the group that has it; worked out once."""
    types = get_type_hints(kind)
    groups: dict[str, list[_Entry]] = {"": []}
    for declared in fields(kind):
        about = declared.metadata.get(_KEY, Stored())
        if about.is_hidden:
            continue
        group, _, key = (about.key or style.name_of(declared.name)).rpartition(".")
        default = declared.default if declared.default_factory is MISSING else declared.default_factory()
        read = about.read or _reader(types[declared.name], about, style)
        write = about.write or (None if types[declared.name] in _PLAIN else partial(_written, style=style))
        is_needed = about.is_needed or default is MISSING
        is_written = is_needed or about.is_written or style.is_complete
        groups.setdefault(group, []).append(_Entry(declared.name, key, default, is_needed, is_written, read, write))
    return tuple((group, tuple(entries)) for group, entries in groups.items())


def _reader(kind: Any, about: Stored, style: Style) -> Read:
    """Reads a value of a type: a dataclass, an enumeration, a collection or a plain type, or an optional one."""
    if get_origin(kind) in {UnionType, Union}:
        option = _reader(next(each for each in get_args(kind) if each is not NoneType), about, style)
        return lambda body, path: None if body is None else option(body, path)
    if get_origin(kind) is not None:
        return _collection_reader(kind, about, style)
    if is_dataclass(kind):
        return partial(decode_part, cast(Callable[..., Any], kind), style=style)
    if issubclass(kind, tuple):
        return partial(_row, kind, [_reader(each, about, style) for each in get_type_hints(kind).values()])
    if kind is int:
        low = style.low if about.low is None else about.low
        return partial(of_type, int) if low is None else partial(whole, low=low, high=about.high or style.high)
    plain = style.text if kind is str else partial(of_type, kind)
    return partial(_choice, kind) if issubclass(kind, StrEnum) else plain


def _collection_reader(kind: Any, about: Stored, style: Style) -> Read:
    origin, *_, inner = get_origin(kind), *(each for each in get_args(kind) if each is not Ellipsis)
    if origin in {dict, list}:
        return partial(of_type, origin)
    item = _reader(inner, about, style)
    if origin is tuple:
        return lambda body, path: tuple(
            item(each, f"{path}[{index}]") for index, each in enumerate(of_type(list, body, path))
        )
    return lambda body, path: {
        name: item(each, f"{path}[{name!r}]") for name, each in of_type(dict, body, path).items()
    }


def _row(kind: Any, readers: Sequence[Read], body: object, path: str) -> Any:
    """Reads a named tuple."""
    items = of_type(list, body, path)
    if len(items) != len(readers):
        msg = f"{path} has {len(items)} entries, not {len(readers)}"
        raise Unreadable(msg)
    return kind(*(read(each, path) for read, each in zip(readers, items, strict=True)))


def _choice(kind: type[StrEnum], body: object, path: str) -> StrEnum:
    text = of_type(str, body, path)
    if text not in list(kind):
        msg = f"{path} has {text!r}"
        raise UnknownPart(msg, msg)
    return kind(text)


def _written(value: Any, style: Style) -> Any:
    if type(value) in _PLAIN:
        return value
    if is_dataclass(value):
        return encode_part(value, style)
    if isinstance(value, Mapping):
        return {name: _written(item, style) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_written(item, style) for item in value]
    return value.value if isinstance(value, StrEnum) else value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
