"""The files of a snapshot of RocksDB on the volume: Spark names its tables in the snapshot's zip."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sparkapp.spark.state.listed_folder import ListedFolder

FOLDERS = {"sstFiles": ("SSTs", "dfsSstFileName"), "logFiles": ("logs", "dfsLogFileName")}
"""Where a store has its tables and logs, and how an entry of the snapshot's metadata names them on the volume."""


Readable = Path | ListedFolder
"""A file or folder of query state, on a volume or in a store."""


def missing_tables(snapshot: Readable) -> Iterator[str]:
    """What the snapshot names and the store's folders lack, as texts; called when a version of state is checked.

    Spark removes tables before the snapshots that name them, so a snapshot may be there without its tables. Metadata of
    another form, as a later Spark may write it, names none: Spark itself finds out then.

    :param snapshot: ``<version>.zip`` in the store's folder.
    :raises OSError: a file cannot be read or looked at. That says nothing about what is there.
    """
    content = snapshot.read_bytes()
    try:
        named = list(_named(content))
    except Exception as error:  # of the modules for archives, compression and JSON
        yield f"{snapshot.name} cannot be read ({error!r})"
        return
    for folder, name, size in named:
        file = snapshot.parent / folder / name
        if not (file.is_file() and file.stat().st_size == size):
            yield f"{snapshot.name} needs {folder}/{name}"


def tables(snapshot: Readable) -> set[str]:
    """The files that the snapshot names, as ``<folder>/<name>``; called for a snapshot that lacks none."""
    return {f"{folder}/{name}" for folder, name, _ in _named(snapshot.read_bytes())}


def _named(snapshot: bytes) -> Iterator[tuple[str, str, object]]:
    """Folder, name and bytes of each table and log."""
    with zipfile.ZipFile(io.BytesIO(snapshot)) as archive:
        text = archive.read("metadata").decode()
    named = json.loads(text.partition("\n")[2])
    for kind, (folder, name) in FOLDERS.items():
        for entry in named.get(kind) or ():
            if name in entry:
                yield folder, Path(entry[name]).name, entry.get("sizeBytes")
