"""docs/reasons.md is what errors, events and reasons say."""

from __future__ import annotations

import re

import pytest

from reason_reference import GUIDES, PAGE, TABLES, page


def test_the_tables_of_reasons_are_up_to_date() -> None:
    present = PAGE.read_text(encoding="utf-8")
    assert page(present) == present, "run `make generate`"


@pytest.mark.parametrize("name", TABLES)
def test_each_row_has_a_text_in_each_cell_but_the_condition(name: str) -> None:
    header, _, *rows = TABLES[name]()
    columns = header.count("|")
    assert rows
    for row in rows:
        cells = re.split(r"(?<!\\)\|", row)[1:-1]
        assert len(cells) + 1 == columns, row
        assert all(cell.strip() for place, cell in enumerate(cells) if (name, place) != ("failures", 1)), row


def test_each_guide_is_of_a_reason_in_a_table() -> None:
    rows = "".join(row for table in TABLES.values() for row in table())
    assert [reason for reason in GUIDES if f"| `{reason}` |" not in rows] == []
