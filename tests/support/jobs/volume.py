"""A small volume that can be full: a file system of its own in memory, as long as this process may mount one."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_BLOCK = b"x" * 4096


class Volume:
    """Mounted at ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Not a byte is left."""
        with self._filler.open("ab", buffering=0) as file:
            while True:
                try:
                    file.write(_BLOCK)
                except OSError as error:
                    if error.errno == errno.ENOSPC:
                        return
                    raise

    def free(self) -> None:
        """There is room again."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_volume(folder: Path, *, kib: int = 512) -> Iterator[Volume]:
    """The volume, gone afterwards; skips the test where mounting is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a full disk needs the right to mount one: {mounted.stderr.strip()}")
    try:
        yield Volume(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)
