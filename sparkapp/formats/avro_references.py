"""Avro schemas that name types of other subjects, as schemas on their own.

fastavro finds a name only behind its definition in the same schema. So each definition takes the place of the name's
first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fastavro

from sparkapp.formats.avro_types import AvroSchema, load, not_avro
from sparkapp.formats.schema_registry import AVRO, RegisteredSchema, SchemaRegistry
from sparkapp.model.errors import SchemaUnusable


def whole_schema(registry: SchemaRegistry, registered: RegisteredSchema, where: str) -> AvroSchema:
    """The schema as JSON, with the definitions of the types that it refers to. Called for each schema of a registry.

    :param where: name of the schema in messages.
    :raises SchemaUnusable: it, or a schema that it refers to, is no Avro schema.
    :raises SchemaNotFound: a reference has no subject or version; other errors as in :meth:`SchemaRegistry.by_id`.
    """
    if not registered.references:
        return _loaded(registered, where)
    named: dict[str, AvroSchema] = {}
    try:
        schema = _parsed(registry, registered, where, named, set())
        return _with_definitions(schema, named, set())
    except RecursionError as error:
        msg = f"{where} has too many references within each other"
        raise SchemaUnusable(msg) from error


def _parsed(
    registry: SchemaRegistry,
    registered: RegisteredSchema,
    where: str,
    named: dict[str, AvroSchema],
    seen: set[tuple[str, int]],
) -> AvroSchema:
    """The schema with full names, after the types of its references.

    :param named: types by full name; those of the schema and of its references are added.
    :param seen: subjects and versions that were read, perhaps by way of another reference.
    """
    schema = _loaded(registered, where)
    for reference in registered.references:
        key = reference.subject, reference.version
        if reference.name not in named and key not in seen:
            seen.add(key)
            _parsed(registry, registry.version(reference), f"{where}, reference {reference.name}", named, seen)
    try:
        return fastavro.parse_schema(schema, named)
    except Exception as error:  # fastavro raises KeyError, TypeError and its own errors
        raise not_avro(where, error) from error


def _loaded(registered: RegisteredSchema, where: str) -> AvroSchema:
    if registered.kind != AVRO:
        msg = f"{where} is of type {registered.kind}, not {AVRO}"
        raise SchemaUnusable(msg)
    return load(registered.text, where)


def _with_definitions(schema: AvroSchema, named: Mapping[str, AvroSchema], defined: set[str]) -> AvroSchema:
    """A parsed schema with each type of ``named`` defined at its first use, and a name everywhere else."""
    if isinstance(schema, list):
        return [_with_definitions(branch, named, defined) for branch in schema]
    if isinstance(schema, str):
        if schema in defined or schema not in named:
            return schema
        return _with_definitions(named[schema], named, defined)
    if "name" in schema:
        if schema["name"] in defined:
            return schema["name"]
        defined.add(schema["name"])
    # Without what fastavro has added.
    whole: dict[str, Any] = {name: value for name, value in schema.items() if not name.startswith("__")}
    for name in ("items", "values"):
        if name in whole:
            whole[name] = _with_definitions(whole[name], named, defined)
    if "fields" in whole:
        whole["fields"] = [
            {**field, "type": _with_definitions(field["type"], named, defined)} for field in whole["fields"]
        ]
    return whole
