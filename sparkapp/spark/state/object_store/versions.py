"""A version of query state in an object store: its objects, in whatever folders they are."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sparkapp.model.errors import StateStoreUnusable
from sparkapp.spark.state import operator_metadata, state_store_files
from sparkapp.spark.state.listed_folder import ListedFolder
from sparkapp.spark.state.object_store.store import ObjectStore

ATTEMPT = "attempt-"
_THREADS = 8
"""Objects that are read at once; each is in memory then."""


def attempt_folder(attempt: int | None) -> str:
    """The folder of an attempt's query, below that of the job."""
    return f"{ATTEMPT}{attempt}"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a version.

    :param path: below the folder of the job. :param size: in bytes.
    """

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """Exactly the objects that a version needs.

    :param store: the folder of the job that has them.
    :param objects: by their paths below ``state``, as Spark names them.
    """

    store: ObjectStore
    objects: Mapping[str, StoredObject]

    @property
    def root(self) -> ListedFolder:
        """The folder ``state`` that Spark would have written."""
        return ListedFolder.of("state", {name: each.size for name, each in self.objects.items()}, self._read)

    def copy_to(self, store: ObjectStore, folder: str) -> None:
        """Copies the version within the store, as the state of an attempt.

        :param store: the folder of the job that gets it, in the same bucket. :param folder: of the attempt.
        :raises StateStoreUnusable: some may be missing, or an object is gone: the next look says what is there.
        """
        try:
            self._copy_to(store, folder)
        except FileNotFoundError as error:
            msg = f"an object of query state went while {store.uri}/{folder} was made: {error}"
            raise StateStoreUnusable(msg) from error

    def _copy_to(self, store: ObjectStore, folder: str) -> None:
        named = {name for name in self.objects if operator_metadata.batch_of(Path(name.partition("/")[2])) is not None}
        paths = {f"{folder}/state/{name}": each.path for name, each in self.objects.items() if name not in named}
        store.copy(paths, of=self.store)
        for name in named:
            operator = f"{store.uri}/{folder}/state/{name.partition('/')[0]}"
            text = operator_metadata.moved(self.store.read(self.objects[name].path).decode(), operator)
            store.write(f"{folder}/state/{name}", text.encode())

    def write_to(self, folder: Path) -> None:
        """Writes the version into a folder of this machine.

        :raises FileNotFoundError: an object is gone. :raises StateStoreUnusable: the store did not give one.
        """

        def written(name: str) -> None:
            content = self.store.read(self.objects[name].path)
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(written, self.objects))

    def _read(self, path: str) -> bytes:
        return self.store.read(self.objects[path.partition("/")[2]].path)


def version_of_attempt(store: ObjectStore, attempt: int | None, version: int, partitions: int) -> StoredVersion:
    """What a version of state needs of all that Spark has written for an attempt.

    Called where the version is known to be whole, or is checked afterwards.

    :param partitions: of each operator's state.
    :raises FileNotFoundError: an object was removed meanwhile. :raises StateStoreUnusable: as its name says.
    """
    below = f"{attempt_folder(attempt)}/state"
    sizes = store.sizes(below)
    root = ListedFolder.of(below, sizes, store.read)
    names = state_store_files.needed(root, sizes.keys(), version, partitions)
    return StoredVersion(store, {name: StoredObject(f"{below}/{name}", sizes[name]) for name in names})
