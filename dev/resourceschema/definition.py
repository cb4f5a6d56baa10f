"""CustomResourceDefinitions as YAML, from the kinds."""

from __future__ import annotations

from typing import Any

import yaml

from resourceschema.kinds import Column, Kind, Version
from resourceschema.openapi import object_schema
from sparkapp.model import names
from sparkapp.model.encoding.schema import held_by

_WIDE = 1 << 20
"""No line is broken: a field is a line of the file, and of a difference."""


def definition_of(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition; called by the writer of the files and by tests."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": list(kind.short_names),
                "categories": ["streaming"],
            },
            "scope": "Namespaced",
            "versions": [_version(version) for version in kind.versions],
        },
    }


def text_of_definition(kind: Kind) -> str:
    """The file."""
    head = f"# {kind.head}\n# Generated from the dataclasses of the resource by `make generate`.\n"
    return head + yaml.dump(
        definition_of(kind), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=_WIDE, allow_unicode=True
    )


def _version(version: Version) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if version.scale is not None:
        subresources["scale"] = dict(version.scale)
    return {
        "name": version.name,
        "served": version.served,
        "storage": version.stored,
        "subresources": subresources,
        "additionalPrinterColumns": [_column(column) for column in version.columns],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": version.text,
                "required": ["spec"],
                **held_by(*version.own_rules),
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": object_schema(version.spec, version.spec_text, rules=version.rules),
                    "status": object_schema(version.status, version.status_text),
                },
            }
        },
    }


def _column(column: Column) -> dict[str, Any]:
    body: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.text:
        body["description"] = column.text
    if column.priority:
        body["priority"] = column.priority
    return body


class _Dumper(yaml.SafeDumper):
    """Without anchors: each field stands by itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        """The chart replaces the line of the definition's name, so that name has a line of its own."""
        return super().represent_mapping(tag, mapping, False if list(mapping) == ["name"] else flow_style)
