"""Every claim of the threat model names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/security.md").read_text(encoding="utf-8")
FILE = re.compile(r"`(tests/[a-z0-9_/]+\.py)`")
TEST = re.compile(r"`(test_[a-z0-9_]+)`")


def test_every_row_of_a_table_of_claims_names_a_test() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)
    claims = [table.splitlines() for table in tables if table.startswith("| claim")]
    assert claims
    for header, _, *rows in claims:
        (file,) = FILE.findall(header)
        functions = re.findall(r"^(?:async )?def (test_\w+)", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        for row in rows:
            named = TEST.findall(row)
            assert named, row
            assert set(named) <= set(functions), row
