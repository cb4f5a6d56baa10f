"""The generated files and their texts."""

from __future__ import annotations

from pathlib import Path

from resourceschema.definition import definition_of, text_of_definition
from resourceschema.kinds import JOB, KINDS
from resourceschema.reference import reference

REPOSITORY = Path(__file__).resolve().parents[2]
DEFINITIONS = REPOSITORY / "crds"
REFERENCE = REPOSITORY / "docs/fields.md"


def generated() -> dict[Path, str]:
    """Each file and its text; called by ``make generate``, and by the test that compares."""
    definitions = {DEFINITIONS / kind.file: text_of_definition(kind) for kind in KINDS}
    return {**definitions, REFERENCE: reference(definition_of(JOB))}
