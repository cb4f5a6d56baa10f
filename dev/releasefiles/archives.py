"""Archives whose bits depend on their content alone: no time, no owner, files in order."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

_MODE = 0o644


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of every file below a folder, by its path there. Links become files."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of the files, in the order of their paths."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), _MODE
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def compressed(content: bytes) -> bytes:
    """The content in gzip's form, without a time."""
    return gzip.compress(content, mtime=0)


def write_tar(folder: Path, target: IO[bytes]) -> None:
    """Writes a folder as a tar archive, file by file: for content that is larger than memory."""
    with tarfile.open(fileobj=target, mode="w|", bufsize=1 << 20, format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                member.size, member.mode = path.stat().st_size, _MODE
                with path.open("rb") as content:
                    archive.addfile(member, content)
