"""Asking a broker whether it is in service."""

from __future__ import annotations

import random
import socket
import struct

_API_VERSIONS = 18
_HEADER = 8
"""Bytes of an answer's length and correlation id."""


def answers(host: str, port: int) -> bool:
    """Whether the broker at this address answers requests.

    An open port alone would say too little: a broker listens before it is in service, and answers only then. Nor would
    any answer do: another program may have the port, or the connection itself, both ends of it.
    """
    # An ApiVersions request, version 0, with no client id.
    correlation_id = random.getrandbits(31)
    request = struct.pack(">hhih", _API_VERSIONS, 0, correlation_id, -1)
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.settimeout(2)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < _HEADER and (more := connection.recv(_HEADER - len(answer))):
                answer += more
            return answer[4:] == struct.pack(">i", correlation_id)
    except OSError:
        return False


def is_free(host: str, port: int) -> bool:
    """Whether no program listens at this address."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return False
    except OSError:
        return True
