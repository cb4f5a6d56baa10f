"""Files that outlive an attempt, written whole or not at all; errors of their volume."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkapp.model.errors import VolumeFull, VolumeUnusable

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def writing_to(place: Path) -> Iterator[None]:
    """Turns errors of the system into errors of the volume, around any write to ``place``.

    :raises VolumeFull: no free space. :raises VolumeUnusable: it is read-only, broken, or may not be written.
    """
    try:
        yield
    except OSError as error:
        kind = VolumeFull if error.errno in _NO_ROOM else VolumeUnusable
        msg = f"{place} cannot be written: {error.strerror or error}"
        raise kind(msg) from error


def write_durably(path: Path, text: str) -> None:
    """Replaces the file's text; after a crash at any moment the file has the old or the new text, whole.

    :raises VolumeFull: and VolumeUnusable: nothing was changed.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with writing_to(path):
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            # Half a text would keep a full disk full.
            temporary.unlink(missing_ok=True)
            raise
