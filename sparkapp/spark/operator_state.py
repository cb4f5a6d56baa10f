"""The files of operators' state (aggregations, deduplication, joins) on the volume, before Spark looks at them.

Each attempt has a folder of its own, so that a superseded driver, which resumes in the middle of a batch, replaces
nobody's files. Spark keeps state there as ``state/<operator>/<partition>/[<store>/]<version>.<kind>``. A batch that
begins with version N writes version N + 1, so the version that belongs to a checkpoint follows from its number; older
ones stay a while. A batch that was never completed leaves a newer one, and the next attempt runs that batch over other
records.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from sparkapp.checkpoint.volume import writing_to
from sparkapp.model.errors import OperatorStateMissing

_VERSION = re.compile(r"(\d+)\.(delta|snapshot|changelog|zip)")
_WHOLE = frozenset({"snapshot", "zip"})
"""Kinds that need no earlier version; the others are the changes of one."""
_SHOWN = 3


_FORMER_LAYOUT = ("state", "offsets", "commits", "sources", "metadata", ".metadata.crc")
"""Of releases in which every attempt wrote into one folder."""


def folder_of(folder: Path, attempt: int) -> Path:
    """Where one attempt's query writes: two drivers give a version the same file name, and Spark lets the last win."""
    return folder / f"attempt-{attempt}"


def prepare(folder: Path, *, attempt: int, writer: int | None, version: int, partitions: int) -> Path:
    """Gives the attempt a folder with exactly the state of the restored checkpoint, or refuses; called by the driver
    once, before Spark starts.

    Files are linked where the volume can, for Spark replaces a file and never changes one. The folder they come from
    is left alone: until the document names this attempt's, the next attempt needs it. Newer versions stay behind:
    Spark would overwrite their changes, but would read a snapshot that a dead attempt made of them.

    :param folder: of all attempts' queries, on the volume.
    :param writer: the attempt in whose folder the checkpoint's state is; None where a release without such folders
        wrote it.
    :param version: that the restored checkpoint ended with; 0 where its operators kept none: whatever is there belongs
        to batches that were never completed, or to a former transform.
    :param partitions: of each operator's state; one without keys has a single one.
    :returns: the attempt's folder.
    :raises OperatorStateMissing: the version is not there, or cannot be put together from what is there.
    :raises VolumeFull: and VolumeUnusable: half a folder is there; the next attempt makes its own.
    """
    own = folder_of(folder, attempt)
    source = folder if writer is None else folder_of(folder, writer)
    missing = list(_missing(source / "state", version, partitions)) if version else []
    if missing:
        shown = "; ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        msg = f"the checkpoint's operators' state, version {version}, is not in {source / 'state'}: {shown}"
        raise OperatorStateMissing(msg)
    shutil.rmtree(own, ignore_errors=True)
    with writing_to(folder):
        own.mkdir(parents=True, exist_ok=True)
        if version:
            _link(source / "state", own / "state", version)
    _remove_settled(folder, attempt, {source} if version else set())
    return own


def _link(source: Path, target: Path, version: int) -> None:
    for file in source.rglob("*"):
        # Hadoop keeps the checksum of NAME as .NAME.crc.
        match = _VERSION.fullmatch(file.name.removeprefix(".").removesuffix(".crc"))
        is_newer = match is not None and int(match[1]) > version
        # What was being written when the attempt died has such a name.
        is_partial = file.name.startswith(".") and ".tmp" in file.name
        if is_newer or is_partial or not file.is_file():
            continue
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            copy.hardlink_to(file)
        except OSError:
            shutil.copyfile(file, copy)


def _remove_settled(folder: Path, attempt: int, kept: Collection[Path]) -> None:
    """Removes what earlier attempts left; never a later one's, whose driver may have superseded this one."""
    for one in folder.glob("attempt-*"):
        number = one.name.removeprefix("attempt-")
        if number.isdigit() and int(number) < attempt and one not in kept:
            shutil.rmtree(one, ignore_errors=True)
    for name in _FORMER_LAYOUT if folder not in kept else ():
        one = folder / name
        if one.is_dir():
            shutil.rmtree(one, ignore_errors=True)
        else:
            one.unlink(missing_ok=True)


def _missing(root: Path, version: int, partitions: int) -> Iterator[str]:
    operators = _numbered(root)
    if not operators:
        yield "there is no operator's state at all"
    for operator in operators:
        found = _numbered(operator)
        wanted = range(1 if len(found) == 1 and found[0].name == "0" else max(partitions, len(found)))
        for number in wanted:
            partition = operator / str(number)
            if not partition.is_dir():
                yield f"operator {operator.name} has no partition {number}"
                continue
            for store in _stores(partition):
                if not _is_whole(store, version):
                    versions = sorted(_versions(store))
                    has = f"{versions[0]} to {versions[-1]}" if versions else "none"
                    yield f"{store.relative_to(root)} has versions {has}, not all that {version} needs"


def _is_whole(store: Path, version: int) -> bool:
    kinds = _versions(store)
    while version > 0:
        if kinds.get(version, frozenset()) & _WHOLE:
            return True
        if version not in kinds:
            return False
        version -= 1
    return True


def _versions(store: Path) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    for file in store.iterdir():
        match = _VERSION.fullmatch(file.name)
        if match and file.stat().st_size:
            number = int(match[1])
            found[number] = found.get(number, frozenset()) | {match[2]}
    return found


def _stores(partition: Path) -> list[Path]:
    """A join has several stores with names; every other operator has one, which is the partition's folder itself."""
    folders = [one for one in partition.iterdir() if one.is_dir() and not one.name.startswith("_")]
    return sorted(folders) or [partition]


def _numbered(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [one for one in folder.iterdir() if one.is_dir() and one.name.isdigit()]
    return sorted(found, key=lambda one: int(one.name))
