"""Resources at the bounds of each field and just beyond them, and with each choice of each enumeration.

Tests send them to a real API server and read them as the operator does: both have to agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkapp.model.encoding.schema import VALIDATIONS

Schema = Mapping[str, Any]
Wrap = Callable[[Any], Any]
"""Puts a value into an object that has it at its path, with the other fields that the objects on the way need."""

_UNKNOWN = "NoChoice"
_SAMPLES = {"url": "https://registry", "function": "module:function"}
"""Values of required texts, by the name of the field; any other text is a letter."""
_NEEDED = {"spec.snapshots": {"intervalSeconds": 3600}}
"""What an object needs in addition to a field, although no field is required."""


@dataclass(frozen=True, slots=True)
class Case:
    """A change of a resource, as a JSON merge patch.

    :param message: of the API server's refusal; empty where the value is within its bounds.
    """

    name: str
    patch: dict[str, Any]
    message: str


def cases_of(spec: Schema, base: Mapping[str, Any]) -> list[Case]:
    """The cases of all fields.

    :param spec: the schema of ``spec``. :param base: the resource that the patches are merged into.
    """
    return list(_of_object(spec, "spec", lambda value: {"spec": value}, base["spec"]))


def _of_object(schema: Schema, path: str, wrap: Wrap, base: Any) -> Iterator[Case]:
    fields = schema.get("properties", {})
    present = base if isinstance(base, Mapping) else {}
    needed = {name: _sample(fields[name], name) for name in schema.get("required", ()) if name not in present}
    needed |= _NEEDED.get(path, {})
    for name, field in fields.items():
        others = {other: value for other, value in needed.items() if other != name}
        yield from _of_value(field, f"{path}.{name}", _within(wrap, name, others), present.get(name))


def _within(wrap: Wrap, name: str, others: Mapping[str, Any]) -> Wrap:
    return lambda value: wrap({**others, name: value})


def _of_value(field: Schema, path: str, wrap: Wrap, base: Any) -> Iterator[Case]:
    if "properties" in field:
        yield from _of_object(field, path, wrap, base)
    elif "items" in field:
        yield from _of_value(field["items"], f"{path}[0]", lambda value: wrap([value]), None)
    for value, message in _values(field, path):
        yield Case(f"{path}: {value}", wrap(value), message)


def _values(field: Schema, path: str) -> Iterator[tuple[Any, str]]:
    """Values of a field, each with the message of its refusal."""
    for choice in field.get("enum", ()):
        yield choice, ""
    if "enum" in field:
        yield _UNKNOWN, f'{path}: Unsupported value: "{_UNKNOWN}"'
    if "minimum" in field:
        yield field["minimum"], ""
        yield field["minimum"] - 1, f"{path} in body should be greater than or equal to {field['minimum']}"
    if "maximum" in field:
        yield field["maximum"], ""
        yield field["maximum"] + 1, f"{path} in body should be less than or equal to {field['maximum']}"
    for rule in field.get(VALIDATIONS, ()):
        least = re.fullmatch(r"self >= (-?\d+)", rule["rule"])
        if least:
            yield int(least[1]), ""
            yield int(least[1]) - 1, rule["message"]


def _sample(field: Schema, name: str) -> Any:
    """A value that the field takes."""
    if "properties" in field:
        return {inner: _sample(field["properties"][inner], inner) for inner in field.get("required", ())}
    if "items" in field:
        return [_sample(field["items"], name)]
    if "enum" in field:
        return field["enum"][0]
    return field.get("minimum", 0) if field["type"] == "integer" else _SAMPLES.get(name, "a")
