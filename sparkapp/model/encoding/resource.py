"""Dataclasses read from a custom resource: a field's name, type and default say where its value is and what it takes.

A new field of the resource is one line of a dataclass. ``max_rate_per_partition: int = field(default=0,
metadata=at(low=0))`` reads ``maxRatePerPartition``, a whole number from 0. A drift test compares names, defaults, enums
and minimums with the schema of the CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from sparkapp.model.encoding.fields import Fields

Part = TypeVar("Part")
Reader = Callable[[Fields, str], Any]
"""Reads one field by itself: the object that has the field, and the field's name in the resource."""

_KEY = "resource"
_NO_DEFAULT: Any = object()


@dataclass(frozen=True, slots=True)
class _Place:
    path: str = ""
    low: int | None = None
    absent: Any = _NO_DEFAULT
    required: bool = False
    reader: Reader | None = None


def at(
    path: str = "",
    *,
    low: int | None = None,
    absent: Any = _NO_DEFAULT,
    required: bool = False,
    reader: Reader | None = None,
) -> Mapping[str, Any]:
    """Metadata of a dataclass field: ``field(default=5, metadata=at(low=2))``.

    :param path: below the object of the dataclass, with dots; by default the field's name in camelCase. ``"."`` reads
        a nested dataclass from the same object.
    :param low: the smallest whole number.
    :param absent: the resource's default, where it is not the field's. The field's own default is the
        meaning of a description that another release's operator wrote.
    :param required: the last object of the path needs the field, wherever the resource has that object.
    :param reader: replaces the rule for the field's type.
    """
    return {_KEY: _Place(path, low, absent, required, reader)}


def read_part(kind: Callable[..., Part], body: Fields) -> Part:
    """Reads one object of a resource; called for ``spec`` by the operator and the commands, and for objects below it.

    :param kind: a dataclass. A field without a default is required in the resource.
    :raises ConfigurationError: naming the field and what it takes.
    """
    return kind(**{name: read(body) for name, read in _readers(kind)})


@cache
def _readers(kind: Any) -> tuple[tuple[str, Callable[[Fields], Any]], ...]:
    """How each field is read, worked out once: the operator reads every job many times."""
    types = get_type_hints(kind)
    return tuple((declared.name, _reader(declared, types[declared.name])) for declared in fields(kind))


def _reader(declared: Field[Any], kind: Any) -> Callable[[Fields], Any]:
    place: _Place = declared.metadata.get(_KEY, _Place())
    optional = get_origin(kind) is UnionType
    if optional:
        kind = next(option for option in get_args(kind) if option is not type(None))
    if place.path == ".":
        return partial(read_part, kind)
    *parents, name = (place.path or _camel_case(declared.name)).split(".")
    read = _value_reader(declared, kind, place, name, optional=optional)

    def descend(body: Fields) -> Any:
        for parent in parents:
            body = body.child(parent)
        return read(body)

    return descend if parents else read


def _value_reader(
    declared: Field[Any], kind: Any, place: _Place, name: str, *, optional: bool
) -> Callable[[Fields], Any]:
    """Reads the field from the object that has it."""
    if place.reader is not None:
        own = place.reader
        return lambda body: own(body, name)
    if is_dataclass(kind):
        part = cast("type", kind)
        return lambda body: None if optional and body.child(name).empty else read_part(part, body.child(name))
    default = declared.default if place.absent is _NO_DEFAULT else place.absent
    default = None if default is MISSING else default

    def read(body: Fields) -> Any:
        if optional and not body.has(name):
            return None
        return _value(kind, body, name, None if place.required and not body.empty else default, place.low)

    return read


def _value(kind: Any, body: Fields, name: str, default: Any, low: int | None) -> Any:
    if kind is str:
        return body.string(name, default)
    if kind is int:
        return body.integer(name, default, low=low)
    if kind is bool:
        return body.boolean(name, default)
    origin = get_origin(kind)
    if origin is tuple:
        return tuple(body.strings(name))
    if origin is Mapping:
        return body.string_map(name)
    return body.choice(name, kind, default)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
