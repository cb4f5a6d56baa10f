"""Frozen dataclasses as JSON and back, compatible between releases that differ by a few fields.

A field is written only where it differs from its default; a field that is not written has its default. Reader and
writer of two releases understand each other as long as no used field is unknown to the reader. The reader refuses an
unknown field by name, because to ignore it would change what a job does.

A default of such a dataclass is therefore a part of the format: it never changes, and a new field has a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints


class UnknownPart(ValueError):
    """A field, or a choice of a field, that this release does not have; the message names it."""


def encode_part(part: object) -> Any:
    """A value for ``json.dumps``, of a dataclass that holds dataclasses, tuples, mappings and plain values.

    Called by :mod:`sparkapp.model.job.codec`.
    """
    if is_dataclass(part):
        values = ((field, getattr(part, field.name)) for field in fields(part))
        return {field.name: encode_part(value) for field, value in values if value != _default(field)}
    if isinstance(part, tuple):
        return [encode_part(item) for item in part]
    if isinstance(part, Mapping):
        return {name: encode_part(item) for name, item in part.items()}
    return part.value if isinstance(part, StrEnum) else part


def decode_part(kind: Any, body: object, path: str) -> Any:
    """:func:`encode_part` read back.

    Called by :mod:`sparkapp.model.job.codec`.

    :param kind: the type to read: a dataclass, an enumeration, a tuple, a mapping or a plain type, or optional.
    :param path: where it is in the description, for messages.
    :raises UnknownPart: a field or a choice that this release does not have.
    :raises ValueError: something is missing or of another type; the message says where.
    """
    if get_origin(kind) in {UnionType, Union}:
        inner = next(option for option in get_args(kind) if option is not type(None))
        return None if body is None else decode_part(inner, body, path)
    if is_dataclass(kind):
        return _decode_dataclass(cast(type, kind), body, path)
    if get_origin(kind) in {tuple, Mapping}:
        return _decode_collection(kind, body, path)
    if issubclass(kind, tuple):
        return _decode_named_tuple(kind, body, path)
    if issubclass(kind, StrEnum):
        text = _of_type(str, body, path)
        if text not in list(kind):
            msg = f"{path} has {text!r}"
            raise UnknownPart(msg)
        return kind(text)
    return _of_type(kind, body, path)


def _decode_dataclass(kind: type, body: object, path: str) -> Any:
    entries = _of_type(dict, body, path)
    types, known = _types(kind), {field.name: field for field in fields(kind)}
    unknown = sorted(name for name in entries if name not in known)
    if unknown:
        raise UnknownPart(", ".join(_join(path, name) for name in unknown))
    for name, field in known.items():
        if name not in entries and _default(field) is MISSING:
            msg = f"{_join(path, name)} is missing"
            raise ValueError(msg)
    return kind(**{name: decode_part(types[name], value, _join(path, name)) for name, value in entries.items()})


def _decode_collection(kind: Any, body: object, path: str) -> Any:
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        items = _of_type(list, body, path)
        return tuple(decode_part(inner[0], item, f"{path}[{index}]") for index, item in enumerate(items))
    entries = _of_type(dict, body, path)
    return {name: decode_part(inner[1], item, f"{path}[{name!r}]") for name, item in entries.items()}


def _decode_named_tuple(kind: type[tuple[Any, ...]], body: object, path: str) -> Any:
    items, types = _of_type(list, body, path), _types(kind)
    if len(items) != len(types):
        msg = f"{path} has {len(items)} entries, not {len(types)}"
        raise ValueError(msg)
    return kind(*(decode_part(inner, item, path) for inner, item in zip(types.values(), items, strict=True)))


def _of_type(kind: type, value: object, path: str) -> Any:
    # isinstance() takes True for a whole number; type() does not.
    if type(value) is not kind:
        msg = f"{path or 'it'} is of type {type(value).__name__}, not {kind.__name__}"
        raise ValueError(msg)
    return value


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
