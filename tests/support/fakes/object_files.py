"""A bucket as a folder on the disk, with the methods of Arrow's file system that the driver uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyarrow import fs


class Died(Exception):
    """The driver was killed here."""


class ObjectFiles:
    """As a real store it has no folders: they come and go with their objects.

    :param root: the folder; the first part of each path is the bucket.
    :ivar dies_after: requests until the driver is killed; None for never.
    :ivar error: what every request is answered with; None for none.
    :ivar copied: paths of copies, in their order.
    """

    def __init__(self, root: Path) -> None:
        self._files = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())
        self.dies_after: int | None = None
        self.error: OSError | None = None
        self.copied: list[str] = []

    def get_file_info(self, asked: fs.FileSelector | str) -> Any:
        self._count()
        return self._files.get_file_info(asked)

    def open_input_stream(self, path: str) -> Any:
        self._count()
        return self._files.open_input_stream(path)

    def open_output_stream(self, path: str) -> Any:
        self._count()
        self._make_room(path)
        return self._files.open_output_stream(path)

    def copy_file(self, source: str, target: str) -> None:
        self._count()
        self._make_room(target)
        self._files.copy_file(source, target)
        self.copied.append(target)

    def delete_dir(self, path: str) -> None:
        self._count()
        self._files.delete_dir(path)

    def delete_file(self, path: str) -> None:
        self._count()
        self._files.delete_file(path)

    def _make_room(self, path: str) -> None:
        self._files.create_dir(path.rpartition("/")[0], recursive=True)

    def _count(self) -> None:
        if self.error is not None:
            raise self.error
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Died
