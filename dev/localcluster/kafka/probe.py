"""Finds out whether a broker is in service."""

from __future__ import annotations

import socket
import struct

_API_VERSIONS = 18
_CORRELATION_ID = struct.pack(">i", 0x6B736A01)
"""A broker repeats it after its answer's length; another program does not."""


def answers(host: str, port: int) -> bool:
    """Whether the broker at this address answers requests.

    An open port is not enough: a broker listens before it is in service. Nor is any answer: another program may have
    the port, or the connection may be connected to itself.
    """
    # An ApiVersions request, version 0, with no client id.
    request = struct.pack(">hh4sh", _API_VERSIONS, 0, _CORRELATION_ID, -1)
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.settimeout(2)
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                return answer.read(8)[4:] == _CORRELATION_ID
    except OSError:
        return False


def is_free(host: str, port: int) -> bool:
    """Whether no program listens at this address."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return False
    except OSError:
        return True
