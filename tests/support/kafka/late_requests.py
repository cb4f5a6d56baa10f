"""A proxy that withholds single requests, and delivers them after their sender has repeated them, or single answers.

A request whose connection has ended may still reach its broker: it waits in a kernel's buffer, in a proxy, or in the
broker's own queue. Its sender sees a lost connection and repeats the request on a new one.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter

INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
TXN_OFFSET_COMMIT = 28

_HOST = "127.0.0.1"


class LateRequests:
    """Listens at :attr:`address` for one broker of this machine; clients never learn the broker's own address.

    :param bootstrap: ``127.0.0.1:port`` of the broker.
    :ivar seen: requests that came by, by api key, withheld ones included.
    """

    def __init__(self, bootstrap: str) -> None:
        self._target = int(bootstrap.rpartition(":")[2])
        self._door = socket.create_server((_HOST, 0), backlog=200)
        self._port: int = self._door.getsockname()[1]
        self.address = f"{_HOST}:{self._port}"
        self.seen: Counter[int] = Counter()
        self._wanted: set[int] = set()
        self._unanswered: dict[int, bool] = {}
        self._kept: list[bytes] = []
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def withhold(self, api_key: int) -> None:
        """The next request of this kind is kept, and its connection ended without an answer."""
        self._wanted.add(api_key)

    def swallow(self, api_key: int, *, end: bool) -> None:
        """The broker gets the next request of this kind, and its answer is dropped.

        :param end: whether the connection ends then. Otherwise the client waits for its own time-out.
        """
        self._unanswered[api_key] = end

    @property
    def withheld(self) -> int:
        """Requests that are kept now."""
        return len(self._kept)

    def deliver(self) -> int:
        """Hands what is kept to the broker, in order, each awaited; returns how many there were."""
        kept, self._kept = self._kept, []
        for frame in kept:
            with socket.create_connection((_HOST, self._target), timeout=20) as server:
                server.sendall(frame)
                assert _frame(server), "the broker has answered"
        return len(kept)

    def close(self) -> None:
        """Ends every connection."""
        for each in (self._door, *self._sockets):
            _end(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection((_HOST, self._target), timeout=20)
                server.settimeout(None)
                self._sockets += [client, server]
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                dropped: dict[int, bool] = {}
                for carry in (self._requests, self._answers):
                    threading.Thread(target=carry, args=(client, server, dropped), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, dropped: dict[int, bool]) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(client):
                api_key, _, number = struct.unpack_from(">hhi", frame, 4)
                self.seen[api_key] += 1
                if api_key in self._wanted:
                    self._wanted.discard(api_key)
                    self._kept.append(frame)
                    break
                if api_key in self._unanswered:
                    dropped[number] = self._unanswered.pop(api_key)
                server.sendall(frame)
        _end(client)
        _end(server)

    def _answers(self, client: socket.socket, server: socket.socket, dropped: dict[int, bool]) -> None:
        # Metadata and coordinators name the broker as a host and a port, one right behind the other.
        own, ours = (_HOST.encode() + struct.pack(">i", port) for port in (self._target, self._port))
        with contextlib.suppress(OSError):
            while frame := _frame(server):
                (number,) = struct.unpack_from(">i", frame, 4)
                if number not in dropped:
                    client.sendall(frame.replace(own, ours))
                elif dropped.pop(number):
                    break
        _end(client)
        _end(server)


def _frame(source: socket.socket) -> bytes:
    """One request or answer with its length in front, or nothing where the connection has ended, also in its middle."""
    head = _exactly(source, 4)
    body = _exactly(source, struct.unpack(">i", head)[0]) if head else b""
    return head + body if body else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
