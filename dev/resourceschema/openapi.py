"""The OpenAPI schema of an object of a resource, from the dataclasses that describe it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from sparkapp.model.encoding.schema import (
    NO_DEFAULT,
    VALIDATIONS,
    Described,
    IntOrString,
    Metadata,
    ObjectDefault,
    ObjectRule,
    Quantity,
    metadata_of,
    resource_name,
)

Schema = dict[str, Any]
_TYPES = {str: "string", int: "integer", bool: "boolean"}
_NO_VALUE: tuple[Any, ...] = (None, "", (), {})


def object_schema(
    kinds: Sequence[type], text: str, *, rules: Iterable[ObjectRule] = (), required: Sequence[str] = ()
) -> Schema:
    """The schema of an object whose fields several dataclasses have, each a part.

    :param rules: between fields; their paths begin below the object.
    :param required: names of required fields; by default those of the dataclasses.
    """
    schema: Schema = {"type": "object", "description": text}
    for kind in kinds:
        _add_fields(kind, schema)
    if required:
        schema["required"] = list(required)
    for rule in rules:
        for where in rule.where:
            checks = _schema_at(schema, where).setdefault(VALIDATIONS, [])
            checks.append({"rule": rule.expression, "message": rule.message})
    _spell_defaults(schema)
    return schema


def _add_fields(kind: type, target: Schema) -> None:
    """Adds the fields of a dataclass to the schema of its object, with the objects on the way to each."""
    types = get_type_hints(kind)
    objects: Mapping[str, Described] = getattr(kind, "OBJECTS", {})
    for declared in fields(kind):
        about, declared_type = metadata_of(declared.metadata), types[declared.name]
        if about.is_hidden:
            continue
        if about.path == ".":
            _add_fields(about.kind or declared_type, target)
            continue
        *parents, name = (about.path or resource_name(declared.name)).split(".")
        parent, way = target, ""
        for step in parents:
            way = f"{way}.{step}".removeprefix(".")
            parent = parent.setdefault("properties", {}).setdefault(step, _described(objects[way]))
        schema, is_required = _field_schema(declared, about, declared_type)
        parent.setdefault("properties", {})[name] = schema
        if is_required:
            parent.setdefault("required", []).append(name)


def _described(found: Described) -> Schema:
    return {"type": "object", "description": found.text, "default": found.default}


def _field_schema(declared: Field[Any], about: Metadata, declared_type: Any) -> tuple[Schema, bool]:
    """The schema, and whether the object needs the field."""
    options = [option for option in get_args(declared_type) if option is not type(None)]
    is_optional = get_origin(declared_type) is UnionType
    kind = about.kind or (options[0] if is_optional else declared_type)
    schema = _value_schema(kind, about)
    if about.text:
        schema["description"] = about.text
    has_default = declared.default is not MISSING or declared.default_factory is not MISSING
    is_required = about.required or not (has_default or about.absent is not NO_DEFAULT)
    if is_dataclass(kind):
        can_be_absent = is_optional or is_required or about.absent is None
        schema["default"] = ObjectDefault.NONE if can_be_absent else about.object_default
    elif not is_required and about.is_shown and about.absent is NO_DEFAULT and about.kind is None:
        default = declared.default
        is_number = type(default) is int and about.low is not None
        if default is not MISSING and default not in _NO_VALUE and not (is_number and default < about.low):
            schema["default"] = str(default) if isinstance(default, str) else default
    return schema, is_required


def _value_schema(kind: Any, about: Metadata) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        schema: Schema = {"type": "object"}
        _add_fields(kind, schema)  # type: ignore[arg-type]
    elif origin is tuple:
        schema = {"type": "array", "items": {**_value_schema(arguments[0], Metadata()), **about.each}}
    elif origin is Mapping and arguments[1] is str:
        schema = {"type": "object", "additionalProperties": {"type": "string", **about.each}}
    elif origin is Mapping:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    elif kind in {Quantity, IntOrString}:
        schema = {"x-kubernetes-int-or-string": True}
    elif issubclass(kind, StrEnum):
        schema = {"type": "string", "enum": [choice.value for choice in kind]}
    else:
        schema = {"type": _TYPES[kind]}
    # The message of a rule of its own says more than that of a minimum.
    rules = [rule["rule"] for rule in about.form.get(VALIDATIONS, ())]
    if about.low is not None and f"self >= {about.low}" not in rules:
        schema["minimum"] = about.low
    if about.high is not None:
        schema["maximum"] = about.high
    if about.is_long:
        schema["format"] = "int64"
    return {**schema, **about.form}


def _schema_at(schema: Schema, where: str) -> Schema:
    for step in filter(None, where.split(".")):
        schema = schema["properties"][step.removesuffix("[]")]
        if step.endswith("[]"):
            schema = schema["items"]
    return schema


def _spell_defaults(schema: Schema) -> None:
    """Puts the default of each object in about of its kind. An object that needs a field has none.

    The fields of an object are behind its other keywords, where a reader of the file looks for them.
    """
    for last in ("items", "properties"):
        if last in schema:
            schema[last] = schema.pop(last)
    for field in schema.get("properties", {}).values():
        _spell_defaults(field)
        _spell_defaults(field.get("items", {}))
        default = field.get("default")
        if isinstance(default, ObjectDefault):
            del field["default"]
            if default is not ObjectDefault.NONE and not field.get("required"):
                field["default"] = _defaults_of(field) if default is ObjectDefault.SPELLED else {}


def _defaults_of(schema: Schema) -> Schema:
    found = {}
    for name, field in schema["properties"].items():
        value = _defaults_of(field) if "properties" in field else field.get("default")
        if value not in _NO_VALUE:
            found[name] = value
    return found
