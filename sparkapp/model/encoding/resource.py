"""Dataclasses read from a custom resource: a field's name, type and default say where its value is and what it takes.

A new field of the resource is one line of a dataclass. ``max_rate_per_partition: int = field(default=0,
metadata=at("Maximum rate.", low=0))`` reads ``maxRatePerPartition``, a whole number from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.schema import NO_DEFAULT, Metadata, ObjectDefault, Quantity, metadata_of, resource_name

Part = TypeVar("Part")
_SIMILAR = 0.7
"""Of two names of fields, as :func:`difflib.get_close_matches` measures it."""
_METADATA = (
    "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
    "generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink",
    "uid",
)  # fmt: skip
"""Fields of ``metadata`` of every object (meta/v1 ObjectMeta)."""


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
        if not metadata_of(declared.metadata).is_hidden
    )


def _reader(declared: Field[Any], kind: Any) -> Callable[[Fields], Any]:
    about = metadata_of(declared.metadata)
    optional = get_origin(kind) is UnionType
    if optional:
        kind = next(option for option in get_args(kind) if option is not type(None))
    if about.path == ".":
        own = about.reader
        return partial(read_part, kind) if own is None else lambda body: own(body, "")
    *parents, name = (about.path or resource_name(declared.name)).split(".")
    read = _value_reader(declared, kind, about, name, optional=optional)

    def descend(body: Fields) -> Any:
        for parent in parents:
            body = body.child(parent)
        return read(body)

    return descend if parents else read


def _value_reader(
    declared: Field[Any], kind: Any, about: Metadata, name: str, *, optional: bool
) -> Callable[[Fields], Any]:
    """Reads the field from the object that has it."""
    if about.reader is not None:
        own = about.reader
        return lambda body: own(body, name)
    if is_dataclass(kind):
        part = cast("type", kind)
        return lambda body: None if optional and body.child(name).empty else read_part(part, body.child(name))
    default = declared.default if about.absent is NO_DEFAULT else about.absent
    default = None if default is MISSING else default
    value = _typed_reader(kind, name, about)

    def read(body: Fields) -> Any:
        is_needed = about.required and not body.empty
        if optional and not body.has(name) and not is_needed:
            return None
        return value(body, None if is_needed else default)

    return read


def _typed_reader(kind: Any, name: str, about: Metadata) -> Callable[[Fields, Any], Any]:
    """Reads a value of the field's type, with the default that holds where it is absent."""
    if get_origin(kind) in {tuple, Mapping}:
        read, most = _collection_reader(kind, name), about.form.get("maxItems")
        return lambda body, _default: body.at_most(most, name, read(body))
    if kind is int:
        low, high = about.low, about.high
        return lambda body, default: body.integer(name, default, low=low, high=high)
    if kind is str:
        return lambda body, default: body.string(name, default)
    if kind is bool:
        return lambda body, default: body.boolean(name, default)
    if kind is Quantity:
        return lambda body, default: body.quantity(name, default)
    return lambda body, default: body.choice(name, kind, default)


def _collection_reader(kind: Any, name: str) -> Callable[[Fields], Any]:
    """Lists and maps, which are empty where they are absent."""
    *_, item = (inner for inner in get_args(kind) if inner is not Ellipsis)
    if get_origin(kind) is Mapping:
        return lambda body: body.string_map(name) if item is str else body.mapping(name)
    if is_dataclass(item):
        return lambda body: read_items(item, body, name)
    return lambda body: tuple(body.integers(name) if item is int else body.strings(name))


def read_items(kind: Any, body: Fields, name: str) -> tuple[Any, ...]:
    """Reads a list of objects; called by readers whose result has another type."""
    items = (Fields(item, f"{body.path}.{name}[{index}]") for index, item in enumerate(body.objects(name)))
    return tuple(read_part(kind, item) for item in items)


def unknown_fields(kinds: Sequence[type], body: Mapping[str, Any], kind: str) -> Iterator[str]:
    """A message for each field of a resource that the API server does not know, with the field that is meant.

    The API server leaves out such fields, or refuses the object. Called by commands that read a file.

    :param kinds: the dataclasses of ``spec``.
    :param kind: of the resource, for the message.
    """
    known = {
        "apiVersion": None, "kind": None, "metadata": dict.fromkeys(_METADATA), "spec": _known(tuple(kinds)),
        "status": None,
    }  # fmt: skip
    for name, value in body.items():
        if name in known:
            yield from _unknown(known[name], value, name)
        else:
            yield _unknown_field(name, known, name, kind)


def _unknown_field(name: object, known: Mapping[str, Any], path: str, parent: str) -> str:
    lower = {each.lower(): each for each in known}
    meant = get_close_matches(str(name).lower(), lower, n=1, cutoff=_SIMILAR)
    hint = f"did you mean {lower[meant[0]]}?" if meant else f"{parent} has {', '.join(sorted(known))}"
    return f"{path} is not a field: {hint}"


def _unknown(known: Any, body: Any, path: str) -> Iterator[str]:
    if isinstance(known, list):
        items = body if isinstance(body, list) else ()
        for index, item in enumerate(items):
            yield from _unknown(known[0], item, f"{path}[{index}]")
    elif known is not None and isinstance(body, Mapping):
        for name, value in body.items():
            if name in known:
                yield from _unknown(known[name], value, f"{path}.{name}")
            else:
                yield _unknown_field(name, known, f"{path}.{name}", path)


@cache
def _known(kinds: tuple[type, ...]) -> dict[str, Any]:
    """The fields of an object by their names. A field that is an object has its fields, and a list those of an item.

    None is for all else.
    """
    known: dict[str, Any] = {}
    for kind in kinds:
        _add_known(kind, known)
    return known


def _add_known(kind: Any, known: dict[str, Any]) -> None:
    types = get_type_hints(kind)
    for declared in fields(kind):
        about = metadata_of(declared.metadata)
        inner = about.kind or types[declared.name]
        if get_origin(inner) is UnionType:
            inner = next(option for option in get_args(inner) if option is not type(None))
        if about.is_hidden:
            continue
        if about.path == ".":
            _add_known(inner, known)
            continue
        *parents, name = (about.path or resource_name(declared.name)).split(".")
        target = known
        for parent in parents:
            target = target.setdefault(parent, {})
        item = get_args(inner)[0] if get_origin(inner) is tuple else None
        target[name] = _known((inner,)) if is_dataclass(inner) else [_known((item,))] if is_dataclass(item) else None


def resource_of(part: Any) -> dict[str, Any]:
    """The object of a resource that :func:`read_part` reads as this dataclass, with every default written out.

    A field whose value means that it is absent has no key. Called by the rules between fields, which judge it.
    """
    body: dict[str, Any] = {}
    lacking = []
    for name, about, parents, key, default in _writers(part.__class__):
        value = getattr(part, name)
        if about.path == "." and about.kind is None:
            body |= resource_of(value)
            continue
        if _is_absent(value, about, default):
            lacking += [parents] if about.required else []
            continue
        target = body
        for parent in parents:
            target = target.setdefault(parent, {})
        written = _written(value)
        # Without its fields, a part that has no default in the resource is absent.
        if written != {} or about.object_default is not ObjectDefault.NONE:
            target[key] = written
    for *parents, last in filter(None, lacking):
        target = body
        for parent in parents:
            target = target.get(parent, {})
        target.pop(last, None)
    return body


@cache
def _writers(kind: Any) -> tuple[tuple[str, Metadata, list[str], str, Any], ...]:
    """Each field: its name, its metadata, the objects on its way, its key and its default."""
    found = []
    for declared in fields(kind):
        about = metadata_of(declared.metadata)
        *parents, key = (about.path.strip(".") or resource_name(declared.name)).split(".")
        # A part that is read into a single value has no rule of its own.
        is_single = is_dataclass(about.kind) and about.path != "."
        if not about.is_hidden and not is_single:
            found.append((declared.name, about, parents, key, declared.default))
    return tuple(found)


def _is_absent(value: Any, about: Metadata, default: Any) -> bool:
    if type(value) is int:
        return (about.low is not None and value < about.low) or (not about.is_shown and value == default)
    return value in (None, "", (), {}) or (not about.is_shown and value == default)


def _written(value: Any) -> Any:
    """An enumeration stays as it is: its members are texts."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, tuple):
        return value._asdict() if hasattr(value, "_asdict") else [_written(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else resource_of(value)
