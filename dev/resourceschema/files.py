"""The generated files and their texts."""

from __future__ import annotations

from pathlib import Path

from resourceschema.defaults import text_of_defaults
from resourceschema.definition import definition_of, text_of_definition
from resourceschema.kinds import JOB, KINDS, SNAPSHOT
from resourceschema.reference import reference

REPOSITORY = Path(__file__).resolve().parents[2]
DEFINITIONS = REPOSITORY / "crds"
REFERENCE = REPOSITORY / "docs/fields.md"
DEFAULTS = REPOSITORY / "tests/unit/sparkapp/model/job/golden/defaults.json"


def generated() -> dict[Path, str]:
    """Each file and its text; called by ``make generate``, and by the test that compares."""
    definitions = {DEFINITIONS / kind.file: text_of_definition(kind) for kind in KINDS}
    fixed = DEFAULTS.read_text(encoding="utf-8")
    page = reference(definition_of(JOB), definition_of(SNAPSHOT))
    return {**definitions, REFERENCE: page, DEFAULTS: text_of_defaults(fixed)}
