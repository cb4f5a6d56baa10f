"""The files of a snapshot of RocksDB on the volume: Spark names its tables in the snapshot's zip."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

FOLDERS = {"sstFiles": ("SSTs", "dfsSstFileName"), "logFiles": ("logs", "dfsLogFileName")}
"""Where a store has its tables and logs, and how an entry of the snapshot's metadata names them on the volume."""


def missing_tables(snapshot: Path) -> Iterator[str]:
    """What the snapshot names and the store's folders lack, as texts; called when a version of state is checked.

    Spark removes tables before the snapshots that name them, so a snapshot may be there without its tables. Metadata of
    another form, as a later Spark may write it, names none: Spark itself finds out then.

    :param snapshot: ``<version>.zip`` in the store's folder.
    """
    try:
        with zipfile.ZipFile(snapshot) as archive:
            text = archive.read("metadata").decode()
        named = json.loads(text.partition("\n")[2])
        for kind, (folder, name) in FOLDERS.items():
            for entry in named.get(kind) or ():
                file = snapshot.parent / folder / Path(entry.get(name, ".")).name
                if name in entry and not (file.is_file() and file.stat().st_size == entry.get("sizeBytes")):
                    yield f"{snapshot.name} needs {folder}/{file.name}"
    except (OSError, KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        yield f"{snapshot.name} cannot be read ({error!r})"
