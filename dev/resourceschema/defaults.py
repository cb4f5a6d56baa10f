"""The defaults of the job's description. They are fixed: a file has them, and only new fields are added to it."""

from __future__ import annotations

import json
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from typing import Any, get_args, get_type_hints

from sparkapp.model.job.spec import Job


def text_of_defaults(fixed: str) -> str:
    """The text of the file.

    :param fixed: its present text. A value in it stays, so a default that has changed is not written.
    """
    return json.dumps(_merged(defaults(), json.loads(fixed)), indent=1) + "\n"


def defaults() -> dict[str, dict[str, Any]]:
    """The defaults of each dataclass that a description can hold, by its name."""
    found = {kind.__name__: _of_kind(kind) for kind in _parts(Job)}
    return {name: values for name, values in sorted(found.items()) if values}


def _merged(now: Any, fixed: Any) -> Any:
    """What is fixed stays where it is, and what is new follows it."""
    if not (isinstance(now, dict) and isinstance(fixed, dict)):
        return fixed
    kept = {name: _merged(now[name], value) for name, value in fixed.items() if name in now}
    return kept | {name: value for name, value in now.items() if name not in fixed}


def _parts(kind: Any) -> set[Any]:
    """The dataclasses that a value of the type can hold, and the type itself."""
    if not is_dataclass(kind):
        return set().union(*map(_parts, get_args(kind)))
    types = get_type_hints(kind)
    return {kind}.union(*(_parts(types[field.name]) for field in fields(kind)))


def _of_kind(kind: Any) -> dict[str, Any]:
    values = {field.name: _default(field) for field in fields(kind)}
    given = {name: value for name, value in values.items() if value is not MISSING}
    found: dict[str, Any] = json.loads(json.dumps(given, default=asdict))
    return found


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
