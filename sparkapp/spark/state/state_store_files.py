"""The files of query state (aggregations, deduplication, joins) on the volume, before Spark reads them.

Each attempt has its own folder (ADR 25), so that a superseded driver that resumes within a batch replaces no other
attempt's files. Spark keeps state there as ``state/<operator>/<partition>/[<store>/]<version>.<kind>``.

A batch that begins with version N writes version N + 1. So the version of a checkpoint follows from its number, and
older versions stay for a while. A batch that was never completed leaves a newer version, and the next attempt runs that
batch over other records. Versions of retained checkpoints stay in folders of their own (ADR 83).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from sparkapp.checkpoint.volume import write_durably, writing_to
from sparkapp.model import names
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import QueryStateMissing
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.spec import Job
from sparkapp.spark.state import operator_metadata, query_log, rocksdb_files

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
    """
    try:
        return (folder / _ENGINE).read_text(encoding="utf-8", errors="replace")
    except OSError:
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


def prepare(folder: Path, *, attempt: int, source: Path, version: int, partitions: int) -> Path:
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
    :returns: the attempt's folder.
    :raises QueryStateMissing: the version is missing or incomplete.
    :raises VolumeFull: and VolumeUnusable: the folder is incomplete; the next attempt makes another.
    """
    own = folder_of(folder, attempt)
    gaps = list(missing(source / "state", version, partitions)) if version else []
    if gaps:
        shown = listed(gaps, _SHOWN, separator="; ")
        msg = f"version {version} of the checkpoint's query state is not in {source / 'state'}: {shown}"
        raise QueryStateMissing(msg)
    if not version or source != own:
        shutil.rmtree(own, ignore_errors=True)
        with writing_to(folder):
            own.mkdir(parents=True, exist_ok=True)
            if version:
                link(source / "state", own / "state", version, partitions)
    _remove_settled(folder, attempt, {source} if version else set())
    return own


def link(
    source: Path, target: Path, version: int, partitions: int, *, may_copy: bool = True, place: Path | None = None
) -> None:
    """Links each file of a version of state, and of the versions before it.

    :param may_copy: whether a file is copied on a volume without hard links.
    :param place: where the target will be, for files that name others by their paths; None for where it is.
    :raises OSError: a file is gone, or cannot be linked nor copied.
    """
    # A folder's files come before those below it. So tables of RocksDB are listed after the snapshot that names them,
    # and a driver that stood still has written them before it.
    for file in source.rglob("*"):
        name, *inner = file.relative_to(source).parts
        within, partition = Path(*inner), inner[:1]
        batch = operator_metadata.batch_of(within)
        if operator_metadata.is_checksum(within):
            continue
        if batch is not None:
            if batch < version:  # version n is that behind batch n - 1
                copy = target / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                operator = (place or target) / name
                copy.write_text(operator_metadata.moved(file.read_text(encoding="utf-8"), operator), encoding="utf-8")
            continue
        if partition and partition[0].isdigit() and partitions and int(partition[0]) >= partitions:
            continue  # of before a repartition
        # Hadoop keeps the checksum of NAME as .NAME.crc.
        match = _VERSION.fullmatch(file.name.removeprefix(".").removesuffix(".crc"))
        is_newer = match is not None and int(match[1]) > version
        # The name of a file that was being written when the attempt died.
        is_partial = file.name.startswith(".") and ".tmp" in file.name
        if is_newer or is_partial or not file.is_file():
            continue
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            copy.hardlink_to(file)
        except OSError:
            if not may_copy:
                raise
            shutil.copyfile(file, copy)


def _remove_settled(folder: Path, attempt: int, kept: Collection[Path]) -> None:
    """Removes the folders of earlier attempts. A later attempt, which superseded this attempt, keeps its folder."""
    for left in folder.glob("attempt-*"):
        number = left.name.removeprefix("attempt-")
        if number.isdigit() and int(number) < attempt and left not in kept:
            shutil.rmtree(left, ignore_errors=True)
    for name in _OLD_LAYOUT if folder not in kept else ():
        entry = folder / name
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def missing(root: Path, version: int, partitions: int) -> Iterator[str]:
    """What the folder lacks of a version of query state, as texts; called here and after a repartition.

    :param partitions: of each operator's state; 0 for those that it has. A folder may have others, of before a
        repartition.
    """
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
            for store in _stores(partition):
                for gap in _gaps(store, version):
                    yield f"{store.relative_to(root)} {gap}"


def _gaps(store: Path, version: int) -> Iterator[str]:
    """What a store lacks of a version: the changes since a whole version, or tables of that."""
    kinds = _versions(store)
    needed = version
    while needed > 0 and not kinds.get(needed, frozenset()) & _WHOLE:
        if needed not in kinds:
            has = f"{min(kinds)} to {max(kinds)}" if kinds else "none"
            yield f"has versions {has}, version {version} needs more"
            return
        needed -= 1
    if "zip" in kinds.get(needed, frozenset()):
        yield from rocksdb_files.missing_tables(store / f"{needed}.zip")


def _versions(store: Path) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    for file in store.iterdir():
        match = _VERSION.fullmatch(file.name)
        if match and file.stat().st_size:
            number = int(match[1])
            found[number] = found.get(number, frozenset()) | {match[2]}
    return found


def _stores(partition: Path) -> list[Path]:
    """A join has several named stores; any other operator has one store, the partition's folder itself."""
    folders = [
        entry
        for entry in partition.iterdir()
        if entry.is_dir() and not entry.name.startswith("_") and entry.name not in _OF_ROCKSDB
    ]
    return sorted(folders) or [partition]


def _numbered(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [entry for entry in folder.iterdir() if entry.is_dir() and entry.name.isdigit()]
    return sorted(found, key=lambda entry: int(entry.name))


def query_folder(job: Job, folder: Path, document: CheckpointDocument, *, stateful_allowed: bool) -> Path:
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
        version=document.checkpoint_id - engine.base, partitions=engine.state_partitions,
    )  # fmt: skip
