"""Ports for programs that listen a moment later, or repeatedly at the same addresses.

A port that the system picked and that was closed again is not safe. A JVM needs seconds until it listens. Meanwhile the
system may give the port to another program, or to the local end of a connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

RANGE = range(20000, 30000)
"""Below the ports that Linux picks (32768 and up) and Kubernetes gives to Services (30000 and up).

Above the fixed ports of :mod:`localcluster.settings`.
"""
_FOLDER = Path("/tmp")  # noqa: S108 - the file is opened as one of this user that is no link


def free_ports(count: int, *, counter: Path | None = None) -> list[int]:
    """Different TCP ports that nothing listens at. Later calls return other ports, until the range is used up.

    :param counter: the file by which processes share the range; by default of the machine and the user. ``TMPDIR`` has
        no say: processes with folders of their own share the ports all the same.
    :raises OSError: too few ports are free, or the file belongs to another user.
    """
    place = _FOLDER / f"kafkaspark-ports-{os.getuid()}" if counter is None else counter
    with _locked(place) as file:
        text = os.pread(file, 16, 0)
        number = int(text) if text.isdigit() else 0
        found: list[int] = []
        for _ in RANGE:
            if len(found) == count:
                break
            port = RANGE[number % len(RANGE)]
            number += 1
            if _is_bindable(port):
                found.append(port)
        if len(found) < count:
            msg = f"fewer than {count} ports are free between {RANGE[0]} and {RANGE[-1]}"
            raise OSError(msg)
        os.ftruncate(file, 0)
        os.pwrite(file, str(number % len(RANGE)).encode(), 0)
    return found


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _is_bindable(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("", port))
        except OSError:
            return False
        return True
