"""Ports for programs that start a moment later, or again and again at the same addresses.

A port that the system picked and gave back will not do: until the program listens at it, which takes a JVM seconds, the
system may pick it for any other program that asks for "any port", or for the near end of a connection.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

RANGE = range(20000, 30000)
"""Below what Linux picks from (32768 and up) and what Kubernetes gives to Services (30000 and up), above the ports that
:mod:`localcluster.settings` fixes."""


def free_ports(count: int, *, counter: Path | None = None) -> list[int]:
    """Different TCP ports that nothing listens at; nobody who asks for ports here is given one of them again soon.

    :param counter: the file by which processes that ask share the range; one in the folder for temporary files if None.
    :raises OSError: all of the range is taken, or the file is not this user's.
    """
    place = Path(tempfile.gettempdir()) / f"kafkaspark-ports-{os.getuid()}" if counter is None else counter
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
            msg = f"of the ports {RANGE[0]} to {RANGE[-1]} fewer than {count} are free"
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
    with socket.socket() as one:
        try:
            one.bind(("", port))
        except OSError:
            return False
        return True
