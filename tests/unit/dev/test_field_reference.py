"""docs/fields.md is what the CustomResourceDefinition says."""

from __future__ import annotations

import yaml

from field_reference import DEFINITION, REFERENCE, reference


def test_the_field_reference_is_up_to_date() -> None:
    generated = reference(yaml.safe_load(DEFINITION.read_text(encoding="utf-8")))
    assert REFERENCE.read_text(encoding="utf-8") == generated, "run `make reference`"


def test_every_field_has_a_description() -> None:
    rows = [line for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith(("| `", "| **`"))]
    assert len(rows) > 100
    assert [row for row in rows if row.endswith("|  |")] == []
