"""Asking a broker whether it is in service, and finding ports for one."""

from __future__ import annotations

import contextlib
import socket
import struct

_API_VERSIONS = 18


def answers(host: str, port: int) -> bool:
    """Whether the broker at this address answers requests.

    An open port alone would say too little: a broker listens before it is in service, and answers only then.
    """
    # An ApiVersions request, version 0, with no client id.
    request = struct.pack(">hhih", _API_VERSIONS, 0, 1, -1)
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.settimeout(2)
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


def is_free(host: str, port: int) -> bool:
    """Whether no program listens at this address."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return False
    except OSError:
        return True


def free_ports(count: int) -> list[int]:
    """Different TCP ports of the loopback address that nothing listens at, at this moment."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
