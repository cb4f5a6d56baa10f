"""Tables for a terminal."""

from __future__ import annotations

from clusterjob.table import render


def test_numbers_are_aligned_to_the_right_and_text_to_the_left() -> None:
    assert render(("what", "count"), [("records in", 336776), ("lost", 0)]).splitlines() == [
        "what          count",
        "----------  -------",
        "records in  336,776",
        "lost              0",
    ]


def test_a_column_with_text_is_text() -> None:
    assert render(("a", "b"), [(1.25, "x"), (10, 2)]).splitlines()[2:] == ["1.2  x", " 10  2"]


def test_a_table_without_rows_is_its_header() -> None:
    assert render(("a", "b"), []).splitlines() == ["a  b", "-  -"]
