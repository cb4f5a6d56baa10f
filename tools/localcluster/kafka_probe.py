"""Asking a broker whether it is in service."""

from __future__ import annotations

import socket
import struct

_API_VERSIONS = 18
_CORRELATION_ID = struct.pack(">i", 0x6B736A01)
"""What a broker says again, after its answer's length; nothing else says it there."""


def answers(host: str, port: int) -> bool:
    """Whether the broker at this address answers requests.

    An open port alone would say too little: a broker listens before it is in service, and answers only then. Nor would
    any answer do: another program may have the port, or the connection itself, both ends of it.
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
