"""Records of a file: a line of JSON for each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafkaspark.local.records import Record
from sparkapp.cli.client_file import read_text
from sparkapp.model.errors import InputUnreadable

FIELDS = frozenset({"key", "value", "headers", "timestamp", "topic", "partition"})
"""Fields of a line that describes a record."""
_REMEDY = "correct the line; the forms are in: kafkaspark dev --help"


def read_records(file: Path, *, values_only: bool = False) -> list[Record]:
    """The records of a file, in its order.

    A JSON object with ``value`` and with no other fields than :data:`FIELDS` is a record. Any other line is a value. A
    string stands for its text, null for a tombstone. Times are ISO 8601 or milliseconds since 1970.

    :param values_only: take every line as a value.
    :raises InputUnreadable: the file cannot be read; or names the line that is no record.
    """
    records = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if line.strip():
            where = f"{file.name}:{number}"
            try:
                records.append(_record(json.loads(line), where, values_only))
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                msg = f"{where} is no record: {error}"
                raise InputUnreadable(msg, remedy=_REMEDY) from error
    return records


def _record(line: Any, where: str, values_only: bool) -> Record:
    if values_only or not isinstance(line, dict) or "value" not in line or line.keys() - FIELDS:
        return Record(line, where=where)
    partition = line.get("partition")
    return Record(
        line["value"], line.get("key"), line.get("headers") or {},
        timestamp=_time(line.get("timestamp")), topic=str(line.get("topic") or ""),
        partition=None if partition is None else int(partition), where=where,
    )  # fmt: skip


def _time(value: str | float | None) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return datetime.fromtimestamp(value / 1000, UTC)
