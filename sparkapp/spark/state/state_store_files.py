"""The files of query state (aggregations, deduplication, joins) on the volume, before Spark reads them.

Each attempt has its own folder (ADR 25), so that a superseded driver that resumes within a batch replaces no other
attempt's files. Spark keeps state there as ``state/<operator>/<partition>/[<store>/]<version>.<kind>``.

A batch that begins with version N writes version N + 1. So the version of a checkpoint follows from its number, and
older versions stay for a while. A batch that was never completed leaves a newer version, and the next attempt runs that
batch over other records. Versions of retained checkpoints stay in folders of their own (ADR 83).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

from sparkapp.checkpoint.volume import reading_from, write_durably, writing_to
from sparkapp.clients.progress import UNWATCHED, Progress
from sparkapp.model import names
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import QueryStateMissing
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.spec import Job
from sparkapp.spark.state import operator_metadata, query_log, rocksdb_files
from sparkapp.spark.state.rocksdb_files import Readable

_VERSION = re.compile(r"(\d+)\.(delta|snapshot|changelog|zip)")
_WHOLE = frozenset({"snapshot", "zip"})
"""Kinds that need no earlier version; the other kinds are changes of an earlier version."""
_SHOWN = 3
_OF_ROCKSDB = frozenset(folder for folder, _ in rocksdb_files.FOLDERS.values())
_RETAINED = re.compile(r"\.?checkpoint-\d+")
"""Folders of retained state; with a dot while they are made."""

ANOTHER = "it has the state of another checkpoint of that number"
"""What is wrong with a folder that :func:`is_of` refuses."""
_ENGINE = "engine.json"
"""In the folder of a retained checkpoint, next to its state."""

_OLD_LAYOUT = ("state", "offsets", "commits", "sources", "metadata", ".metadata.crc")
"""Entries of releases in which all attempts shared a folder."""


def folder_of(folder: Path, attempt: int) -> Path:
    """The folder of an attempt's query. Two drivers name a version's file alike, and Spark keeps the last."""
    return folder / f"attempt-{attempt}"


def retained_folder(folder: Path, checkpoint_id: int) -> Path:
    """The folder of a retained checkpoint's query state."""
    return folder / names.retained_state(checkpoint_id)


def engine_text(folder: Path) -> str:
    """Which state the folder of a retained checkpoint has: the engine's text of its entry; empty where it is unknown.

    A number may stand for two states, where somebody has restored an old document by hand.

    :raises VolumeUnusable: it cannot be read.
    """
    with reading_from(folder), suppress(FileNotFoundError):
        return (folder / _ENGINE).read_text(encoding="utf-8", errors="replace")
    return ""


def is_of(folder: Path, engine: str) -> bool:
    """Whether the folder of a retained checkpoint may have that state: folders of earlier releases do not say it.

    :param engine: the engine's text of the entry.
    """
    return engine_text(folder) in {"", engine}


def put_engine_text(folder: Path, text: str) -> None:
    """Writes what :func:`engine_text` reads."""
    write_durably(folder / _ENGINE, text)


def retained_folders(folder: Path) -> list[Path]:
    """All of them, with those that were never completed."""
    root = folder / "retained"
    return [entry for entry in sorted(root.iterdir()) if _RETAINED.fullmatch(entry.name)] if root.is_dir() else []


def folder_of_state(folder: Path, engine: query_log.EngineState) -> Path:
    """Which of the folders has the query state that a document names: an attempt's, or a retained checkpoint's.

    :param folder: of all attempts' queries, on the volume; a release without folders of attempts has its state there.
    """
    if engine.retained is not None:
        return retained_folder(folder, engine.retained)
    return folder if engine.attempt is None else folder_of(folder, engine.attempt)


def prepare(
    folder: Path, *, attempt: int, source: Path, version: int, partitions: int, progress: Progress = UNWATCHED
) -> Path:
    """Makes the attempt's folder with exactly the query state of the restored checkpoint.

    Called by the wiring once, before the query starts. A folder that this attempt has made of another job's state
    already is left as it is. Files are linked if the volume can: Spark replaces files and
    never changes them. The source folder is not changed: the next attempt needs it until the document names this
    attempt's folder. Newer versions are left out: Spark would overwrite their changes, but would read a snapshot that a
    dead attempt made of them.

    :param folder: of all attempts' queries, on the volume.
    :param source: the folder with the checkpoint's state (:func:`folder_of_state`).
    :param version: of the restored checkpoint's state; 0 if it has none. Files there then belong to batches that were
        never completed, or to a previous transform.
    :param partitions: of each operator's state; an operator without keys has a single partition.
    :param progress: counts partitions, folders and files.
    :returns: the attempt's folder.
    :raises QueryStateMissing: the version is missing or incomplete.
    :raises VolumeFull: and VolumeUnusable: the folder is incomplete; the next attempt makes another. Or it is not known
        what the source has.
    """
    own = folder_of(folder, attempt)
    gaps = list(missing(source / "state", version, partitions, progress=progress)) if version else []
    if gaps:
        shown = listed(gaps, _SHOWN, separator="; ")
        msg = f"version {version} of the checkpoint's query state is not in {source / 'state'}: {shown}"
        raise QueryStateMissing(msg)
    remove_settled(folder, attempt, {source} if version else set(), progress)
    if not version or source != own:
        remove(own, progress)
        with writing_to(folder):
            own.mkdir(parents=True, exist_ok=True)
            if version:
                link(source / "state", own / "state", version, partitions, progress=progress)
    return own


def link(
    source: Path,
    target: Path,
    version: int,
    partitions: int,
    *,
    may_copy: bool = True,
    place: Path | None = None,
    progress: Progress = UNWATCHED,
) -> None:
    """Links each file of a version of state, and of the versions before it.

    :param may_copy: whether a file is copied on a volume without hard links.
    :param place: where the target will be, for files that name others by their paths; None for where it is.
    :param progress: counts the files, also those that are left out.
    :raises OSError: a file is gone, or cannot be linked nor copied.
    """
    # A folder's files come before those below it. So tables of RocksDB are listed after the snapshot that names them,
    # and a driver that stood still has written them before it.
    for file in source.rglob("*"):
        progress.count()
        name, *inner = file.relative_to(source).parts
        if not _belongs((name, *inner), version, partitions) or not file.is_file():
            continue
        copy = target / name / Path(*inner)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if operator_metadata.batch_of(Path(*inner)) is not None:
            operator = f"file:{(place or target) / name}"
            copy.write_text(operator_metadata.moved(file.read_text(encoding="utf-8"), operator), encoding="utf-8")
            continue
        try:
            copy.hardlink_to(file)
        except OSError:
            if not may_copy:
                raise
            shutil.copyfile(file, copy)


def _belongs(path: tuple[str, ...], version: int, partitions: int) -> bool:
    """Whether a file is part of a version of state, or of a version before it.

    :param path: below the folder of state, in parts.
    """
    if len(path) > 1 and path[1].isdigit() and partitions and int(path[1]) >= partitions:
        return False  # of before a repartition
    within = Path(*path[1:])
    batch = operator_metadata.batch_of(within)
    if batch is not None or operator_metadata.is_checksum(within):
        return batch is not None and batch < version  # version n is that behind batch n - 1
    number = _version_of(path[-1])
    # The name of a file that was being written when the attempt died.
    is_partial = path[-1].startswith(".") and ".tmp" in path[-1]
    return not is_partial and (number is None or number <= version)


def _version_of(name: str) -> int | None:
    """The version that a file has; None for a file without one. Hadoop keeps the checksum of NAME as .NAME.crc."""
    match = _VERSION.fullmatch(name.removeprefix(".").removesuffix(".crc"))
    return None if match is None else int(match[1])


def needed(root: Readable, names: Collection[str], version: int, partitions: int) -> list[str]:
    """The files that a version of state needs: in each store the newest snapshot up to it, and the changes since.

    Called to copy a version where there are no links, when :func:`missing` has found no gap.

    :param names: of all files, by their paths below ``root``.
    """
    bases: dict[str, tuple[int, set[str]]] = {}
    for label, store in _all_stores(root, partitions):
        kinds = _versions(store)
        base = next((n for n in range(version, 0, -1) if kinds.get(n, frozenset()) & _WHOLE), 0)
        is_zip = "zip" in kinds.get(base, frozenset())
        bases[label] = (base, rocksdb_files.tables(store / f"{base}.zip") if is_zip else set())
    return [name for name in names if _belongs(tuple(name.split("/")), version, partitions) and _is_used(name, bases)]


def _is_used(name: str, bases: dict[str, tuple[int, set[str]]]) -> bool:
    """
    :param bases: of each store, the number of its snapshot, and the tables that this names.
    """
    folder, _, file = name.rpartition("/")
    if folder in bases:
        number = _version_of(file)
        return number is None or number >= bases[folder][0]
    above, _, kind = folder.rpartition("/")
    if above in bases and kind in _OF_ROCKSDB:
        return f"{kind}/{file.removeprefix('.').removesuffix('.crc')}" in bases[above][1]
    return True


def remove(folder: Path, progress: Progress) -> None:
    """Removes a folder as far as it can be, from below: each folder in it is progress."""
    for each, _, _ in os.walk(folder, topdown=False):
        shutil.rmtree(each, ignore_errors=True)
        progress.count()


def remove_settled(folder: Path, attempt: int, kept: Collection[Path], progress: Progress) -> None:
    """Removes the folders of earlier attempts. A later attempt, which superseded this attempt, keeps its folder.

    Called behind the claim and before anything is linked or copied. An attempt that was killed within its copy has left
    a folder, and the volume may have no room for another.

    :param kept: the folder that the document in the store names. Only an attempt that has the claim changes that, and
        it names its own.
    """
    for left in folder.glob("attempt-*"):
        number = left.name.removeprefix("attempt-")
        if number.isdigit() and int(number) < attempt and left not in kept:
            remove(left, progress)
    for name in _OLD_LAYOUT if folder not in kept else ():
        entry = folder / name
        if entry.is_dir():
            remove(entry, progress)
        else:
            entry.unlink(missing_ok=True)


def missing(
    root: Readable, version: int, partitions: int, *, since: int = 0, progress: Progress = UNWATCHED
) -> Iterator[str]:
    """What the folder lacks of a version of query state, as texts; called here and after a repartition.

    :param partitions: of each operator's state; 0 for those that it has. A folder may have others, of before a
        repartition.
    :param since: an earlier version that is whole.
    :param progress: counts the stores.
    :raises VolumeUnusable: a folder or file on a volume cannot be read: it may have all of the version.
    """
    with reading_from(root) if isinstance(root, Path) else nullcontext():  # a store has errors of its own
        yield from _missing(root, version, partitions, since=since, progress=progress)


def _missing(root: Readable, version: int, partitions: int, *, since: int, progress: Progress) -> Iterator[str]:
    operators = _numbered(root)
    if not operators:
        yield "the folder has no query state"
    for operator in operators:
        found = _numbered(operator)
        wanted = range(1 if len(found) == 1 and found[0].name == "0" else partitions or len(found))
        for number in wanted:
            partition = operator / str(number)
            if not partition.is_dir():
                yield f"operator {operator.name} has no partition {number}"
                continue
            for label, store in _stores(partition, f"{operator.name}/{number}"):
                for gap in _gaps(store, version, since):
                    yield f"{label} {gap}"
                progress.count()


def _all_stores(root: Readable, partitions: int) -> Iterator[tuple[str, Readable]]:
    """Path below the folder of state, and folder, of each store."""
    for operator in _numbered(root):
        for partition in _numbered(operator):
            if not partitions or int(partition.name) < partitions:
                yield from _stores(partition, f"{operator.name}/{partition.name}")


def _gaps(store: Readable, version: int, since: int) -> Iterator[str]:
    """What a store lacks of a version: the changes since a whole version, or tables of that."""
    kinds = _versions(store)
    at = version
    while at > since:
        here = kinds.get(at, frozenset())
        if not here:
            has = f"{min(kinds)} to {max(kinds)}" if kinds else "none"
            yield f"has versions {has}, version {version} needs more"
            return
        if here & _WHOLE and (not since or here <= _WHOLE):
            break
        at -= 1
    if at > since and "zip" in kinds[at]:
        yield from rocksdb_files.missing_tables(store / f"{at}.zip")


def _versions(store: Readable) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    for file in store.iterdir():
        match = _VERSION.fullmatch(file.name)
        if match and file.stat().st_size:
            number = int(match[1])
            found[number] = found.get(number, frozenset()) | {match[2]}
    return found


def _stores(partition: Readable, label: str) -> list[tuple[str, Readable]]:
    """A join has several named stores; any other operator has one store, the partition's folder itself.

    :param label: the path of the partition below the folder of state.
    """
    folders: list[tuple[str, Readable]] = [
        (f"{label}/{entry.name}", entry)
        for entry in partition.iterdir()
        if entry.is_dir() and not entry.name.startswith("_") and entry.name not in _OF_ROCKSDB
    ]
    return sorted(folders, key=lambda found: found[0]) or [(label, partition)]


def _numbered(folder: Readable) -> list[Readable]:
    if not folder.is_dir():
        return []
    found: list[Readable] = [entry for entry in folder.iterdir() if entry.is_dir() and entry.name.isdigit()]
    return sorted(found, key=lambda entry: int(entry.name))


def query_folder(
    job: Job,
    folder: Path,
    document: CheckpointDocument,
    *,
    stateful_allowed: bool,
    progress: Progress = UNWATCHED,
) -> Path:
    """The folder of the attempt's query, with the files of its state store.

    Called after the transactions of previous attempts are settled, because readers wait for these, and before Spark
    starts the query.

    :raises QueryStateMissing: the volume does not hold the checkpoint's version.
    """
    if not stateful_allowed:
        return folder  # the engine refuses a transform that keeps state
    engine = query_log.restored_engine(document)
    return prepare(
        folder, attempt=job.attempt, source=folder_of_state(folder, engine),
        version=document.checkpoint_id - engine.base, partitions=engine.state_partitions, progress=progress,
    )  # fmt: skip
