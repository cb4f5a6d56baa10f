"""A snapshot of a RocksDB state store, in the form that Spark gives it; test_repartition.py has Spark's own."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def snapshot(path: Path, *, tables: dict[str, str] | None = None, compressed: bool = False) -> None:
    """As Spark writes it: the tables are in a folder next to it.

    :param tables: contents by name.
    """
    tables = tables or {}
    named = [
        {"localFileName": "8.sst", "dfsSstFileName": name, "sizeBytes": len(text)} for name, text in tables.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": named, "numKeys": 1}))
    for name, text in tables.items():
        (path.parent / "SSTs").mkdir(exist_ok=True)
        (path.parent / "SSTs" / name).write_text(text)
