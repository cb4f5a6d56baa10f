"""The contents of an image: the files of its layers, read from an OCI layout."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localcluster.images.oci import Layout

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"


@dataclass(frozen=True)
class Entry:
    """A file, folder or link of a layer.

    :param facts: what two equal entries have in common: kind, mode, owner, date, target of the link, hash.
    """

    name: str
    facts: tuple[str, ...]


def entries(layer: Path) -> Iterator[Entry]:
    """What a layer contains, in its order."""
    with tarfile.open(layer) as files:
        for member in files:
            content = files.extractfile(member) if member.isreg() else None
            digest = hashlib.sha256(content.read()).hexdigest() if content else ""
            owner = f"{member.uid}:{member.gid}"
            facts = (f"{member.type!r}", f"{member.mode:o}", owner, f"{member.mtime}", member.linkname, digest)
            yield Entry(member.name, facts)


def files_of(image: Layout, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """The contents of the image's files whose path is ``wanted``, by path without a leading slash."""
    found: dict[str, bytes] = {}
    for layer in image.layers():
        with tarfile.open(layer) as files:
            for member in files:
                path = member.name.removeprefix("./").removeprefix("/")
                folder, _, name = path.rpartition("/")
                if name == _OPAQUE:
                    _remove(found, folder)
                elif name.startswith(_WHITEOUT):
                    _remove(found, f"{folder}/{name.removeprefix(_WHITEOUT)}".removeprefix("/"))
                elif member.isfile() and wanted(path):
                    content = files.extractfile(member)
                    assert content is not None
                    found[path] = content.read()
    return found


def _remove(found: dict[str, bytes], path: str) -> None:
    for name in [name for name in found if name == path or name.startswith(f"{path}/")]:
        del found[name]
