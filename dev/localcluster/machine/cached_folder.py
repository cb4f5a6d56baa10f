"""A folder of the cache that several processes may make at once. Each of them sees the complete folder or none."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Other processes wait here. Then each looks again whether ``folder`` is still missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def complete(folder: Path) -> Iterator[Path]:
    """An empty folder, which takes the name of ``folder`` at the end. It does not if the block raises an error."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    yield unfinished
    unfinished.replace(folder)
