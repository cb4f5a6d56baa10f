"""Renders the answers of commands: a table to read, or JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum


class Output(StrEnum):
    """Values of ``--output``."""

    TABLE = "table"
    JSON = "json"


def render(rows: Sequence[Mapping[str, object]], output: Output, *, empty: str = "nothing found") -> str:
    """The rows as one text without a final newline.

    :param rows: all with the same fields, in the order of the columns; field names are those of the JSON.
    :param empty: text of a table without rows; JSON is ``[]``.
    """
    if output is Output.JSON:
        return json.dumps(list(rows), indent=2, default=str)
    if not rows:
        return empty
    titles = [_title(name) for name in rows[0]]
    cells = [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(line[index]) for line in (titles, *cells)) for index in range(len(titles))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (titles, *cells)
    )


def _title(name: str) -> str:
    """``producerId`` becomes ``PRODUCER ID``, as in kubectl's columns."""
    return "".join(f" {letter}" if letter.isupper() else letter for letter in name).upper()


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
