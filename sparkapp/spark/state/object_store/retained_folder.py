"""The query state of retained checkpoints in an object store: where it is, and which of it is whole (ADR 106).

::

    retained/checkpoint-<number>/attempt-<n>/state/…         changes, snapshots and schemas of a checkpoint
    retained/checkpoint-<number>/attempt-<n>/manifest.json   written last: what the version has
    retained/tables/attempt-<n>/…                            tables of RocksDB, each once for all checkpoints

An attempt writes only below its own number. So an attempt that was replaced changes nothing that its successor keeps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sparkapp.model import names
from sparkapp.model.errors import StateStoreUnusable
from sparkapp.model.errors.listed import listed
from sparkapp.spark.state import rocksdb_files, state_store_files
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.object_store.versions import StoredObject, StoredVersion, attempt_folder

_TABLES = f"{names.RETAINED_STATE}/tables"
_MANIFEST = "manifest.json"
_IN_CHECKPOINT = re.compile(r"checkpoint-(\d+)/attempt-(\d+)/(.+)")
_TABLE = re.compile(r"tables/attempt-(\d+)/(.+)")
_OF_ROCKSDB = frozenset(folder for folder, _ in rocksdb_files.FOLDERS.values())
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the version of a retained checkpoint has.

    :param engine: the engine's text of its entry: a number may stand for two states.
    :param files: bytes of each object of the checkpoint itself, by its path below ``state``.
    :param tables: the same of the tables that it shares with other checkpoints.
    """

    engine: str
    files: Mapping[str, int]
    tables: Mapping[str, int]

    def encode(self) -> bytes:
        return json.dumps({"engine": self.engine, "files": dict(self.files), "tables": dict(self.tables)}).encode()

    @classmethod
    def decode(cls, content: bytes) -> Manifest:
        """:raises ValueError: it is no manifest."""
        try:
            body = json.loads(content)
            return cls(str(body["engine"]), dict(body["files"]), dict(body["tables"]))
        except (KeyError, TypeError) as error:
            raise ValueError(error) from error


@dataclass(frozen=True, slots=True, order=True)
class RetainedFolder:
    """The folder in which an attempt keeps a checkpoint."""

    checkpoint_id: int
    attempt: int

    @property
    def path(self) -> str:
        """Below the folder of the job."""
        return f"{names.retained_state(self.checkpoint_id)}/{attempt_folder(self.attempt)}"

    @property
    def manifest(self) -> str:
        """Path of its manifest."""
        return f"{self.path}/{_MANIFEST}"

    @property
    def tables(self) -> str:
        """The folder of the attempt's tables, below that of the job."""
        return f"{_TABLES}/{attempt_folder(self.attempt)}"

    def version(self, store: ObjectStore, manifest: Manifest) -> StoredVersion:
        """The objects of the manifest."""
        own = {name: StoredObject(f"{self.path}/state/{name}", size) for name, size in manifest.files.items()}
        shared = {name: StoredObject(f"{self.tables}/{name}", size) for name, size in manifest.tables.items()}
        return StoredVersion(store, own | shared)

    def lacks(self, store: ObjectStore, manifest: Manifest) -> Iterator[str]:
        """Objects of the manifest that the store does not have, or with another size.

        :raises StateStoreUnusable: the store did not answer.
        """
        kept = ((f"{self.path}/state", manifest.files), (self.tables, manifest.tables))
        for folder, wanted in kept:
            there = store.sizes(folder) if wanted else {}
            yield from (f"{folder}/{name} is gone" for name, size in wanted.items() if there.get(name) != size)


def is_table(name: str) -> bool:
    """Whether an object is a table or log of RocksDB, whose name is given once.

    :param name: path below ``state``.
    """
    return name.rpartition("/")[0].rpartition("/")[2] in _OF_ROCKSDB


def find(store: ObjectStore, checkpoint_id: int, engine: str) -> StoredVersion:
    """The version of a retained checkpoint.

    :param store: of the job that has retained it. :param engine: the engine's text of the checkpoint's entry.
    :raises FileNotFoundError: the store does not have it whole. The text says what it lacks.
    :raises StateStoreUnusable: the store did not answer.
    """
    gaps = ["the folder has no query state"]
    where = names.retained_state(checkpoint_id)
    for name in store.sizes(where):
        attempt, _, file = name.removeprefix("attempt-").partition("/")
        if file != _MANIFEST or not attempt.isdigit():
            continue
        folder = RetainedFolder(checkpoint_id, int(attempt))
        manifest = read_manifest(store, folder)
        if manifest.engine != engine:
            gaps = [state_store_files.ANOTHER]
            continue
        gaps = list(folder.lacks(store, manifest))
        if not gaps:
            return folder.version(store, manifest)
    raise FileNotFoundError(f"it is not in {store.uri}/{where}: {listed(gaps, _SHOWN, separator='; ')}")


def read_manifest(store: ObjectStore, folder: RetainedFolder) -> Manifest:
    """:raises FileNotFoundError: it has none. :raises StateStoreUnusable: it cannot be read."""
    try:
        return Manifest.decode(store.read(folder.manifest))
    except ValueError as error:
        msg = f"{store.uri}/{folder.manifest} cannot be read: {error}"
        raise StateStoreUnusable(msg) from error


@dataclass(frozen=True, slots=True)
class RetainedObjects:
    """All that is retained, as the store listed it.

    :param folders: whether each has a manifest. :param tables: each as attempt and path below its folder.
    """

    folders: Mapping[RetainedFolder, bool]
    tables: Collection[tuple[int, str]]

    @classmethod
    def of(cls, store: ObjectStore) -> RetainedObjects:
        """:raises StateStoreUnusable: the store did not answer."""
        folders: dict[RetainedFolder, bool] = {}
        tables = []
        for name in store.sizes(names.RETAINED_STATE):
            if match := _IN_CHECKPOINT.fullmatch(name):
                folder = RetainedFolder(int(match[1]), int(match[2]))
                folders[folder] = folders.get(folder, False) or match[3] == _MANIFEST
            elif match := _TABLE.fullmatch(name):
                tables.append((int(match[1]), match[2]))
        return cls(folders, tables)

    def manifests(
        self, store: ObjectStore, numbers: Collection[int], *, known: Mapping[RetainedFolder, Manifest] | None = None
    ) -> dict[RetainedFolder, Manifest]:
        """The manifests of these checkpoints; a folder without one was never completed.

        :param known: those that were read before. :raises StateStoreUnusable: one of them cannot be read.
        """
        whole = [each for each, is_whole in self.folders.items() if is_whole and each.checkpoint_id in numbers]
        return {each: (known or {}).get(each) or read_manifest(store, each) for each in whole}

    def others(
        self, kept: Mapping[RetainedFolder, Manifest], attempt: int
    ) -> tuple[list[RetainedFolder], list[tuple[int, str]]]:
        """Folders and tables that belong to no kept checkpoint. Those of later attempts are theirs.

        :param kept: the manifests of all checkpoints that stay. :param attempt: which removes the others.
        """
        numbers = {folder.checkpoint_id for folder in kept}
        named = {(folder.attempt, name) for folder, manifest in kept.items() for name in manifest.tables}
        folders = [each for each in self.folders if each.checkpoint_id not in numbers and each.attempt <= attempt]
        return folders, [each for each in self.tables if each not in named and each[0] <= attempt]


def remove(store: ObjectStore, folders: Collection[RetainedFolder], tables: Collection[tuple[int, str]]) -> None:
    """Removes exactly these objects.

    :raises StateStoreUnusable: some may be left.
    """
    for folder in folders:
        store.remove(folder.path)
    store.delete([f"{RetainedFolder(0, attempt).tables}/{name}" for attempt, name in tables])
