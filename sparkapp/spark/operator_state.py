"""The files of operators' state (aggregations, deduplication, joins) on the volume, before Spark looks at them.

Spark keeps them as ``state/<operator>/<partition>/[<store>/]<version>.<kind>``. A batch that begins with version N
writes version N + 1, so the version that belongs to a checkpoint follows from its number; older ones stay a while. A
batch that was never completed leaves a newer one, and the next attempt runs that batch over other records.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from sparkapp.model.errors import OperatorStateMissing

LOG = logging.getLogger(__name__)

_VERSION = re.compile(r"(\d+)\.(delta|snapshot|changelog|zip)")
_WHOLE = frozenset({"snapshot", "zip"})
"""Kinds that need no earlier version; the others are the changes of one."""
_SHOWN = 3


def prepare(folder: Path, *, version: int, partitions: int) -> None:
    """Leaves exactly the state of the restored checkpoint, or refuses; called by the driver once, before Spark starts.

    Newer versions go: Spark would overwrite their changes, but would read a snapshot that a dead attempt made of them.

    :param folder: of the query, on the volume.
    :param version: that the restored checkpoint ended with; 0 where its operators kept none: whatever is there belongs
        to batches that were never completed, or to a former transform.
    :param partitions: of each operator's state; one without keys has a single one.
    :raises OperatorStateMissing: the version is not there, or cannot be put together from what is there.
    """
    root = folder / "state"
    if version == 0:
        if root.exists():
            LOG.info("operators' state of batches that were never completed, or of a former transform, is removed")
        shutil.rmtree(root, ignore_errors=True)
        return
    missing = list(_missing(root, version, partitions))
    if missing:
        shown = "; ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        msg = f"the checkpoint's operators' state, version {version}, is not in {root}: {shown}"
        raise OperatorStateMissing(msg)
    _remove_after(root, version)


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


def _remove_after(root: Path, version: int) -> None:
    for operator in _numbered(root):
        for partition in _numbered(operator):
            for file in partition.rglob("*"):
                match = _VERSION.fullmatch(file.name)
                newer = match is not None and int(match[1]) > version
                # What was being written when the former attempt died has such a name.
                if newer or (file.name.startswith(".") and file.name.endswith(".tmp")):
                    file.unlink()


def _stores(partition: Path) -> list[Path]:
    """A join has several stores with names; every other operator has one, which is the partition's folder itself."""
    folders = [one for one in partition.iterdir() if one.is_dir() and not one.name.startswith("_")]
    return sorted(folders) or [partition]


def _numbered(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [one for one in folder.iterdir() if one.is_dir() and one.name.isdigit()]
    return sorted(found, key=lambda one: int(one.name))
