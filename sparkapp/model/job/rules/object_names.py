"""The names of Secrets, ConfigMaps and claims in a job's fields: Kubernetes gives no others to its objects.

The operator puts such names into pods, into Roles and into the paths of its requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from sparkapp.model import names
from sparkapp.model.encoding.schema import metadata_of, resource_name
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.forms import OBJECT
from sparkapp.model.job.spec import JobSpec


def check_object_name(name: str, where: str) -> None:
    """Called for each field that names an object, also by the operator for the fields that only it needs.

    :param where: path of the field.
    :raises ConfigurationError: no object can have the name.
    """
    require(
        names.is_object_name(name),
        where,
        f"{name[: names.MAX_OBJECT_NAME]!r} cannot be the name of an object: use at most {names.MAX_OBJECT_NAME}"
        " lower case letters, digits, '-' and '.'",
    )


def check_object_names(spec: JobSpec) -> None:
    """
    :raises ConfigurationError: naming the field whose name no object can have.
    """
    for where, name in _named(spec, "spec"):
        if name:
            check_object_name(name, where)


def _named(part: Any, path: str) -> Iterator[tuple[str, str]]:
    """Path and value of each field whose form is that of an object's name; empty where the job does not set it."""
    for name, below, is_name in _names_below(part.__class__):
        value, where = getattr(part, name), path + below
        if is_name:
            yield where, value
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                yield from _named(item, f"{where}[{index}]")
        elif value is not None:
            yield from _named(value, where)


@cache
def _names_below(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """The fields that are such a name, or hold parts: attribute, path below the part, and whether it is a name."""
    found, types = [], get_type_hints(kind)
    for declared in fields(kind):
        about = metadata_of(declared.metadata)
        below = "" if about.path == "." else f".{about.path or resource_name(declared.name)}"
        is_name = about.form is OBJECT
        inner = (types[declared.name], *get_args(types[declared.name]))
        if is_name or any(is_dataclass(option) for option in inner):
            found.append((declared.name, below, is_name))
    return tuple(found)
