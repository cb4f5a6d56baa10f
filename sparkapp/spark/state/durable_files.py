"""Files of query state are on the disk before a document names their version.

Spark closes a file of state and does not force it to the disk. A node that loses power loses what is not on its disk
yet. The document is in the API server, and would name state that is gone. So the driver forces the files of a version
between the batch and the document. Executors may have written them on other nodes. A network file system sends a file
to its server when it is closed, or at the latest when another client opens it.

Spark never changes a file of state, so each file is forced once. A snapshot that Spark makes later in the background is
forced before the next document. The changes that it stands for stay longer than that.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sparkapp.checkpoint.volume import force_file, force_folder, writing_to
from sparkapp.clients.progress import UNWATCHED, Progress

_THREADS = 8


class DurableFiles:
    """The state of one attempt's query; called by the thread that writes its documents.

    :param folder: of the attempt's query, on the volume. What is below ``state`` counts; Spark's logs do not, because
        each attempt rebuilds them from the document.
    :param progress: counts the files and folders.
    """

    def __init__(self, folder: Path, progress: Progress = UNWATCHED) -> None:
        self._progress = progress
        self._root = folder / "state"
        self._above = (str(folder), str(folder.parent))
        self._forced: dict[str, frozenset[tuple[str, int]]] = {}
        """Of each folder, its entries by name and inode. A file that replaces another has another inode."""

    def force(self) -> None:
        """Forces what is new since the last call: files, then the folders that name them.

        :raises VolumeFull: and VolumeUnusable: the disk may not have the files; the checkpoint must not be named.
        """
        with writing_to(self._root):
            folders: list[str] = []
            files: list[str] = []
            found: dict[str, frozenset[tuple[str, int]]] = {}
            left = [str(self._root)]
            while left:
                folder = left.pop()
                entries = _entries(folder)
                found[folder] = frozenset((entry.name, entry.inode()) for entry in entries)
                left += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
                new = found[folder] - self._forced.get(folder, frozenset())
                if new:
                    folders.append(folder)
                    names = {name for name, _ in new}
                    files += [each.path for each in entries if each.name in names and each.is_file()]
            if not self._forced:
                folders += self._above
            with ThreadPoolExecutor(_THREADS) as threads:
                for _ in threads.map(force_file, files):
                    self._progress.count()
                for _ in threads.map(force_folder, folders):
                    self._progress.count()
            self._forced = found


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The entries that belong to a version: not files that are being written, nor a folder that Spark has removed."""
    try:
        with os.scandir(folder) as found:
            return [entry for entry in found if not (entry.name.startswith(".") and ".tmp" in entry.name)]
    except FileNotFoundError:
        return []
