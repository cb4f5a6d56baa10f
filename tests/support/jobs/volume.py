"""Volumes that fail as those of a cluster do: full, or without power. Each is a file system of its own.

A test is skipped where this process may not mount one.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.patience import until

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


class Disk(Volume):
    """A disk, mounted at ``folder``. Only a program's order writes to it: the kernel does not, for minutes.

    :param image: the file with the disk's content.
    """

    def __init__(self, image: Path, folder: Path) -> None:
        super().__init__(folder)
        self._image = image

    def flush(self) -> None:
        """Everything that was written is on the disk."""
        subprocess.run(["sync", "--file-system", self.folder], check=True)

    def lose_power(self) -> None:
        """What the disk has at this moment is all that is left. The processes with a file of it open are killed."""
        left = self._image.with_suffix(".left")
        shutil.copyfile(self._image, left)
        until(lambda: self._is_unmounted() or time.sleep(0.1))
        left.replace(self._image)
        subprocess.run(["mount", *_loop(self._image), self.folder], check=True)

    def _is_unmounted(self) -> bool:
        return subprocess.run(["umount", self.folder], check=False, capture_output=True).returncode == 0


@contextmanager
def small_volume(folder: Path, *, kib: int = 512) -> Iterator[Volume]:
    """The volume, gone afterwards."""
    with _mounted(folder, "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs"):
        yield Volume(folder)


@contextmanager
def disk(image: Path, folder: Path, *, mebibytes: int = 256) -> Iterator[Disk]:
    """The disk, gone afterwards.

    :param image: where its content is to be.
    """
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    with _mounted(folder, *_loop(image)):
        yield Disk(image, folder)


def _loop(image: Path) -> tuple[str, ...]:
    # The journal is written each ten minutes, and not each five seconds.
    return "-o", "loop,commit=600", str(image)


@contextmanager
def _mounted(folder: Path, *arguments: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(["mount", *arguments, folder], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"the test needs the right to mount a volume: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)
