"""JSON Schemas of a registry, with the schemas that they refer to by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from sparkapp.formats.schema_registry import JSON, RegisteredSchema, SchemaRegistry
from sparkapp.model.errors import SchemaUnusable

JsonSchema: TypeAlias = Any
"""A schema as parsed JSON: an object, or a boolean."""
_CHOICES = ("oneOf", "anyOf", "allOf")
CHOICES = frozenset(_CHOICES)
_ASSERTIONS = frozenset({"properties", "required", "items", "additionalProperties", "enum", "const", "$ref", *_CHOICES})
"""Keywords that a schema with a choice cannot have; the others judge a value alone, or say nothing about it."""
_MAX_HOPS = 100


class Shown(NamedTuple):
    """A schema within a document, which its ``$ref`` are relative to."""

    document: str
    schema: JsonSchema

    def inner(self, schema: JsonSchema) -> Shown:
        """A schema of the same document."""
        return Shown(self.document, schema)


class Schemas:
    """A main schema and those that it refers to.

    :param text: result of :func:`with_references`. :param where: name of the schema in messages.
    :raises SchemaUnusable: no valid JSON, or not a schema.
    """

    def __init__(self, text: str, where: str) -> None:
        self._where = where
        body = load(text, where)
        self._documents: Mapping[str, JsonSchema] = {"": body["schema"], **body["references"]}
        self.main = Shown("", body["schema"])

    def resolved(self, at: Shown) -> Shown:
        """The schema behind ``$ref``.

        :raises SchemaUnusable: it refers to nothing, or is no schema.
        """
        for _ in range(_MAX_HOPS):
            if isinstance(at.schema, bool):
                return at
            if not isinstance(at.schema, dict):
                raise self.refused(f"has {json.dumps(at.schema)} in the place of a schema")
            reference = at.schema.get("$ref")
            if reference is None:
                return at
            at = self._target(at, str(reference))
        raise self.refused("has references in a circle")

    def branches(self, at: Shown) -> list[Shown]:
        """The schemas of which a value has to fit one; empty without a choice.

        :raises SchemaUnusable: the schema combines several schemas that a value has to fit at once.
        """
        found = [name for name in _CHOICES if name in at.schema]
        if not found:
            if isinstance(at.schema.get("items"), list) or "prefixItems" in at.schema:
                raise self.refused("has an array with a schema for each place")
            return []
        choices = at.schema[found[0]]
        further = _ASSERTIONS & set(at.schema) - {found[0]}
        if further or not isinstance(choices, list) or not choices or (found[0] == "allOf" and len(choices) > 1):
            raise self.refused(f"combines {found[0]} with {', '.join(sorted(further)) or 'several schemas'}")
        return [at.inner(choice) for choice in choices]

    def refused(self, what: str) -> SchemaUnusable:
        """The error for what columns cannot be judged by."""
        return SchemaUnusable(f"{self._where} {what}", remedy="write with a schema without it, or set value: json")

    def _target(self, at: Shown, reference: str) -> Shown:
        name, _, pointer = reference.partition("#")
        document = name or at.document
        if document not in self._documents:
            raise self.refused(f"has $ref {reference!r}, and no reference of that name")
        schema = self._documents[document]
        for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(schema, dict) or key not in schema:
                raise self.refused(f"has $ref {reference!r}, which does not exist")
            schema = schema[key]
        return Shown(document, schema)


def load(text: str, where: str) -> JsonSchema:
    """Parses the JSON of a schema.

    :raises SchemaUnusable: no JSON, or neither an object nor a boolean.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{where} is not a JSON Schema: {error}"
        raise SchemaUnusable(msg) from error
    if not isinstance(found, dict | bool):
        msg = f"{where} is not a JSON Schema: it is neither an object nor a boolean"
        raise SchemaUnusable(msg)
    return found


def title(text: str, where: str) -> str:
    """The name of a schema's records, for subjects.

    :raises SchemaUnusable: no schema, or a schema without a title.
    """
    found = load(text, where)
    name = found.get("title") if isinstance(found, dict) else None
    if not isinstance(name, str) or not name:
        msg = f"{where} has no title, which names the subject"
        raise SchemaUnusable(msg, remedy="add a title to the schema, or set subjectNameStrategy: TopicName")
    return name


def with_references(registry: SchemaRegistry, found: RegisteredSchema, where: str) -> str:
    """The schema with those that it refers to, at any depth, as text for :class:`Schemas`.

    :raises SchemaUnusable: one is no JSON Schema.
    :raises SchemaNotFound: a reference has no subject or version; other errors as in :meth:`SchemaRegistry.by_id`.
    """
    references: dict[str, JsonSchema] = {}
    waiting = [(found, where)]
    while waiting:
        each, name = waiting.pop()
        if each.kind != JSON:
            msg = f"{name} is of type {each.kind}, not {JSON}"
            raise SchemaUnusable(msg)
        for reference in each.references:
            if reference.name not in references:
                version = registry.version(reference)
                inner = f"{where}, reference {reference.name}"
                references[reference.name] = load(version.text, inner)
                waiting.append((version, inner))
    # Without white space, because every task receives the job's description.
    return json.dumps({"schema": load(found.text, where), "references": references}, separators=(",", ":"))
