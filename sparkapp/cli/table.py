"""The answers of commands: a table to read, or JSON for programs; and their refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum

from sparkapp.model.commands import remedy_in
from sparkapp.model.errors import CommandRefused, KafkaSparkJobError


def refuse(error: KafkaSparkJobError, *, namespace: str = "", name: str = "") -> None:
    """Writes a refusal to the standard error: what failed, and below it the remedy. Every command uses it.

    :param namespace: and ``name``: of the job that the command is about, if it is about one.
    """
    reason = "" if isinstance(error, CommandRefused) else f"{error.reason}: "
    remedy = remedy_in(error, namespace=namespace, name=name)
    sys.stderr.write(f"{reason}{error.message}\n" + (f"Fix: {remedy}\n" if remedy else ""))


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
