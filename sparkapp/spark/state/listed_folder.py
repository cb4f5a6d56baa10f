"""Files of query state as one list of a store's objects had them, with the methods of a path that checks use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Size:
    """The part of a file's status that a list of objects has; named as in :class:`os.stat_result`."""

    st_size: int


@dataclass(slots=True, eq=False)
class ListedFolder:
    """A folder or file, also where it is not in the list. :meth:`read_bytes` alone asks the store.

    :param name: without the folders above. :param path: with them, for the store.
    :param read: returns the content of an object by its path.
    :param size: in bytes; None for a folder, and for what is not there.
    """

    name: str
    path: str
    read: Callable[[str], bytes]
    above: ListedFolder | None = None
    size: int | None = None
    _entries: dict[str, ListedFolder] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, sizes: Mapping[str, int], read: Callable[[str], bytes]) -> ListedFolder:
        """The folder with all files below it.

        :param sizes: bytes of each object, by its path below the folder.
        """
        root = cls(path.rpartition("/")[2], path, read)
        for name, size in sizes.items():
            entry = root
            for part in name.split("/"):
                entry = entry._entries.setdefault(part, entry / part)
            entry.size = size
        return root

    @property
    def parent(self) -> ListedFolder:
        """The folder above; the root is its own, as in :class:`pathlib.Path`."""
        return self if self.above is None else self.above

    def __truediv__(self, name: str) -> ListedFolder:
        return self._entries.get(name) or ListedFolder(name, f"{self.path}/{name}", self.read, self)

    def __str__(self) -> str:
        return self.path

    def iterdir(self) -> Iterator[ListedFolder]:
        """As that of :class:`pathlib.Path`; nothing for what is no folder."""
        return iter(self._entries.values())

    def is_dir(self) -> bool:
        """A store has the folders of its objects."""
        return bool(self._entries)

    def is_file(self) -> bool:
        return self.size is not None

    def stat(self) -> Size:
        return Size(self.size or 0)

    def read_bytes(self) -> bytes:
        """The content, from the store.

        :raises FileNotFoundError: it was removed since. :raises StateStoreUnusable: the store did not give it.
        """
        return self.read(self.path)
