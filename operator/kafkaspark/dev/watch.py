"""Waits until a file changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from kafkaspark.local.project import Project

_PAUSE = 0.1
"""Seconds between two looks. An editor that writes a file in steps is quiet for as long when it has finished."""

Signatures = Mapping[Path, tuple[int, int]]


def signatures(files: Iterable[Path]) -> Signatures:
    """Time and size of each file; zeros for a file that does not exist."""
    return {file: _signature(file) for file in files}


def await_change(before: Signatures) -> list[Path]:
    """Blocks until files differ from ``before`` and have stopped to change; returns those that differ."""
    while True:
        changed = changed_since(before)
        if changed:
            return changed


def changed_since(before: Signatures) -> list[Path]:
    """The files that differ from ``before`` and are quiet; takes a moment."""
    now = signatures(before)
    time.sleep(_PAUSE)
    changed = [file for file, signature in now.items() if before[file] != signature]
    return changed if changed and signatures(before) == now else []


def files_of(project: Project, file: Path) -> set[Path]:
    """The files that a project was read from.

    :param file: with the resource.
    """
    return {file, *project.watched, *(code for code in project.files.values() if isinstance(code, Path))}


def _signature(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
