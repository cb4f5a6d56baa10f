"""The field reference of the documentation, generated from the CustomResourceDefinition: ``make reference`` writes it.

``docs/fields.md`` has one row per field of ``spec`` and ``status``: type, default, limits, enum values, description. A
test holds that it is what this module generates, so that a change of the definition cannot leave it behind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
DEFINITION = REPOSITORY / "crds" / "kafkasparkjobs.yaml"
REFERENCE = REPOSITORY / "docs" / "fields.md"

_HEAD = """# Field reference

Generated from `crds/kafkasparkjobs.yaml` by `make reference`. `kubectl explain ksj.spec.source` prints the same for a
cluster. A name in **bold** is required. `[]` marks the items of a list.

API version `{version}`.
"""
_COLUMNS = "| field | type | default | description |\n|---|---|---|---|"
_LIMITS = (
    ("minimum", "≥ {}"),
    ("maximum", "≤ {}"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} entries"),
)


def reference(definition: Mapping[str, Any]) -> str:
    """The page for a CustomResourceDefinition, as Markdown; called by :func:`main` and by the drift test."""
    version = definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    parts = [_HEAD.format(version=f"{definition['spec']['group']}/{version['name']}")]
    for root in ("spec", "status"):
        parts += [f"## `{root}`\n", _COLUMNS, *_rows(schema[root], f"{root}."), ""]
    parts += ["## Rules between fields\n", "The API server refuses a resource that breaks one of these rules.\n"]
    parts += [f"- {message}" for message in dict.fromkeys(_rules(schema["spec"]))]
    return "\n".join(parts) + "\n"


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        shown = f"**`{prefix}{name}`**" if name in required else f"`{prefix}{name}`"
        yield f"| {shown} | {_type(field)} | {_default(field)} | {_cell(_description(field))} |"
        inner, path = field, f"{prefix}{name}"
        while inner.get("type") == "array":
            inner, path = inner["items"], f"{path}[]"
        yield from _rows(inner, f"{path}.")


def _type(field: Mapping[str, Any]) -> str:
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if kind == "object" and "additionalProperties" in field:
        return "map of strings"
    return str(kind)


def _default(field: Mapping[str, Any]) -> str:
    if "default" not in field or field["default"] == {}:
        return ""
    value = field["default"]
    return "" if isinstance(value, dict) else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _description(field: Mapping[str, Any]) -> str:
    text = str(field.get("description", ""))
    if "enum" in field:
        text += " One of " + ", ".join(f"`{choice}`" for choice in field["enum"]) + "."
    limits = [form.format(field[name]) for name, form in _LIMITS if name in field]
    return text + (f" ({', '.join(limits)})" if limits else "")


def _rules(schema: Mapping[str, Any]) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield str(rule["message"])
    for field in schema.get("properties", {}).values():
        yield from _rules(field)
        if "items" in field:
            yield from _rules(field["items"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()


def main() -> int:
    """Writes the page; the exit status is 0."""
    REFERENCE.write_text(reference(yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"wrote {REFERENCE.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
