"""Dataclasses read from a custom resource: a field's name, type and default say where its value is and what it takes.

A new field of the resource is one line of a dataclass. ``max_rate_per_partition: int = field(default=0,
metadata=at("Maximum rate.", low=0))`` reads ``maxRatePerPartition``, a whole number from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.schema import NO_DEFAULT, Place, Quantity, place_of, resource_name

Part = TypeVar("Part")


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
    return tuple(
        (declared.name, _reader(declared, types[declared.name]))
        for declared in fields(kind)
        if not place_of(declared.metadata).is_hidden
    )


def _reader(declared: Field[Any], kind: Any) -> Callable[[Fields], Any]:
    place = place_of(declared.metadata)
    optional = get_origin(kind) is UnionType
    if optional:
        kind = next(option for option in get_args(kind) if option is not type(None))
    if place.path == ".":
        own = place.reader
        return partial(read_part, kind) if own is None else lambda body: own(body, "")
    *parents, name = (place.path or resource_name(declared.name)).split(".")
    read = _value_reader(declared, kind, place, name, optional=optional)

    def descend(body: Fields) -> Any:
        for parent in parents:
            body = body.child(parent)
        return read(body)

    return descend if parents else read


def _value_reader(
    declared: Field[Any], kind: Any, place: Place, name: str, *, optional: bool
) -> Callable[[Fields], Any]:
    """Reads the field from the object that has it."""
    if place.reader is not None:
        own = place.reader
        return lambda body: own(body, name)
    if is_dataclass(kind):
        part = cast("type", kind)
        return lambda body: None if optional and body.child(name).empty else read_part(part, body.child(name))
    default = declared.default if place.absent is NO_DEFAULT else place.absent
    default = None if default is MISSING else default

    def read(body: Fields) -> Any:
        if optional and not body.has(name):
            return None
        return _value(kind, body, name, None if place.required and not body.empty else default, place)

    return read


def _value(kind: Any, body: Fields, name: str, default: Any, place: Place) -> Any:
    if get_origin(kind) in {tuple, Mapping}:
        return _collection(kind, body, name)
    if kind is int:
        return body.integer(name, default, low=place.low, high=place.high)
    plain: Mapping[Any, Callable[..., Any]] = {str: body.string, bool: body.boolean, Quantity: body.quantity}
    return plain[kind](name, default) if kind in plain else body.choice(name, kind, default)


def _collection(kind: Any, body: Fields, name: str) -> Any:
    """Lists and maps, which are empty where they are absent."""
    *_, item = (inner for inner in get_args(kind) if inner is not Ellipsis)
    if get_origin(kind) is Mapping:
        return body.string_map(name) if item is str else body.mapping(name)
    if is_dataclass(item):
        return read_items(item, body, name)
    return tuple(body.integers(name) if item is int else body.strings(name))


def read_items(kind: Any, body: Fields, name: str) -> tuple[Any, ...]:
    """Reads a list of objects; called by readers whose result has another type."""
    items = (Fields(item, f"{body.path}.{name}[{index}]") for index, item in enumerate(body.objects(name)))
    return tuple(read_part(kind, item) for item in items)
