"""The answers of commands: a table to read, or JSON for programs; and their refusals."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum

from sparkapp.model.commands import remedy_in
from sparkapp.model.errors import CommandRefused, InputUnreadable, KafkaSparkJobError


def refuse(error: KafkaSparkJobError, *, namespace: str = "", name: str = "") -> int:
    """Writes a refusal to the standard error: what failed, and below it the remedy.

    :param namespace: and ``name``: of the job that the command is about, if it is about one.
    :returns: the exit status: 2 for a file that cannot be read, else 1.
    """
    reason = "" if isinstance(error, CommandRefused) else f"{error.reason}: "
    remedy = remedy_in(error, namespace=namespace, name=name)
    sys.stderr.write(f"{reason}{error.message}\n" + (f"Fix: {remedy}\n" if remedy else ""))
    return 2 if isinstance(error, InputUnreadable) else 1


def answered(options: argparse.Namespace) -> int:
    """Runs the command of a command line; the exit status. Each error of this project becomes a refusal here.

    So does an error of the system about a file, which the error names.
    """
    try:
        return int(options.answer(options))
    except KafkaSparkJobError as error:
        return refuse(error, namespace=getattr(options, "namespace", ""), name=getattr(options, "job", None) or "")
    except OSError as error:
        if error.filename is None:
            raise
        msg = f"{error.filename}: {error.strerror}"
        remedy = f"name another place, or look at it: ls -ld {shlex.quote(str(error.filename))}"
        return refuse(InputUnreadable(msg, remedy=remedy))


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
