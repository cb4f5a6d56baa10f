"""Takes a broker out of service for a moment, as late heartbeats do: it can be reached, and leads nothing meanwhile."""

from __future__ import annotations

import socket
import struct
import time

from sparkapp.clients.deadline import Deadline

_BROKER_HEARTBEAT, _NODE_ID, _SECONDS = 63, 1, 120
_METADATA_OFFSET = 10**9
"""Of a broker that has caught up."""
_LONGEST_EPOCH = 5_000
"""A broker's epoch is the offset of its registration in the metadata log."""


class Fencing:
    """Speaks for the broker to its controller.

    :param port: of the controller, which is the broker itself.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
        self._epoch = next(epoch for epoch in range(_LONGEST_EPOCH) if self._beat(epoch, fence=False)[0] == 0)

    def fence(self) -> None:
        """Returns when the controller has taken the broker out; its next own heartbeat brings it back."""
        deadline = Deadline.after(_SECONDS)
        while not self._beat(self._epoch, fence=True)[1]:
            assert not deadline.expired, "not fenced"
            time.sleep(0.001)

    def close(self) -> None:
        self._socket.close()

    def _beat(self, epoch: int, *, fence: bool) -> tuple[int, bool]:
        """One heartbeat; the answer's error code, and whether the broker is out of service."""
        body = struct.pack(">iqq??b", _NODE_ID, epoch, _METADATA_OFFSET, fence, False, 0)
        message = struct.pack(">hhihb", _BROKER_HEARTBEAT, 0, epoch, -1, 0) + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        answer = self._receive(struct.unpack(">i", self._receive(4))[0])
        _, _, _, error, _, fenced = struct.unpack(">ibih??", answer[:13])
        return error, fenced

    def _receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "the controller has closed the connection"
            found += part
        return found
