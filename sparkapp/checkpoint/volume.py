"""Files that outlive an attempt: written whole or not at all, and what a volume that does not take them means."""

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
    """Around whatever writes there.

    :raises VolumeFull: there is no room. :raises VolumeUnusable: it is read-only, broken, or may not be written.
    """
    try:
        yield
    except OSError as error:
        kind = VolumeFull if error.errno in _NO_ROOM else VolumeUnusable
        msg = f"{place} cannot be written: {error.strerror or error}"
        raise kind(msg) from error


def write_durably(path: Path, text: str) -> None:
    """Puts the text in the place of the file's; after a crash at any moment either of the two is there, whole.

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
            # Half a text on a full disk would only keep it full.
            temporary.unlink(missing_ok=True)
            raise
