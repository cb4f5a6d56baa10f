"""Files that outlive an attempt, written whole or not at all; errors of their volume."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import CheckpointStoreUnavailable, VolumeFull, VolumeUnusable

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_FOR_FOLDERS = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})
"""Answers of file systems that have no such call for a folder, and write its entries at once."""
_LOOK_SECONDS = 0.05


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


@contextmanager
def reading_from(place: Path) -> Iterator[None]:
    """The same around any look at ``place``, where what is not there is no error.

    :raises VolumeUnusable: it is broken or away, or a file has gone meanwhile. What it has is not known.
    """
    try:
        yield
    except OSError as error:
        msg = f"{place} cannot be read: {error.strerror or error}"
        raise VolumeUnusable(msg) from error


@contextmanager
def prepared(path: Path, text: str) -> Iterator[Callable[[], None]]:
    """A text on the disk next to its place. The call of what is given puts it there; else it is removed.

    After a crash at any moment the file has the old or the new text, whole. Behind the call it has the new text, also
    after a loss of power. Each thread has a copy of its own.

    :raises VolumeFull: and VolumeUnusable: nothing was changed. The call raises them, too: the file has either text.
    """
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")

    def replace() -> None:
        with writing_to(path):
            temporary.replace(path)
            force_folder(str(path.parent))

    try:
        with writing_to(path), temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield replace
    finally:
        # Half a text would keep a full disk full.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_durably(path: Path, text: str) -> None:
    """Replaces the file's text, or changes nothing.

    :raises VolumeFull: and VolumeUnusable, as :func:`prepared`.
    """
    with prepared(path, text) as replace:
        replace()


def force_file(path: str) -> None:
    """Returns when the disk has the file. A file that is gone needs nothing.

    :raises OSError: the disk may not have it.
    """
    try:
        number = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(number)
    finally:
        os.close(number)


def force_folder(path: str) -> None:
    """Forces the entries of a folder, where its file system has a call for that.

    :raises OSError: the disk may not have them.
    """
    try:
        force_file(path)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise


@contextmanager
def only_writer(path: Path, deadline: Deadline) -> Iterator[None]:
    """Other processes and threads that enter for the same file wait meanwhile. The system ends the lock of the dead.

    :raises CheckpointStoreUnavailable: another process has been inside until the deadline: it stands still.
    :raises VolumeUnusable: and VolumeFull: there can be no lock.
    """
    lock = path.with_name(f".{path.name}.lock")
    with writing_to(lock):
        number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _is_locked(number, lock):
            if deadline.expired:
                msg = f"another process is writing {path}, and stands still"
                raise CheckpointStoreUnavailable(msg, remedy=f"end that process: fuser --kill {lock}")
            time.sleep(deadline.bound(_LOOK_SECONDS))
        yield
    finally:
        # A child that was forked meanwhile has the same lock.
        fcntl.flock(number, fcntl.LOCK_UN)
        os.close(number)


def _is_locked(number: int, lock: Path) -> bool:
    with writing_to(lock):
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
