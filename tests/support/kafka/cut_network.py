"""A network that can be cut: what goes through it stops silently in both directions, and continues when it is restored.

Nothing is closed and nothing is lost, as when a switch fails: what was sent meanwhile waits in the senders' kernels and
arrives late. New connections come about and are not answered.
"""

from __future__ import annotations

import contextlib
import socket
import threading


class Network:
    """A way to one address, at :attr:`address`, for clients that are configured to take it.

    :param target: host and port of what is behind it.
    """

    def __init__(self, target: tuple[str, int], *, port: int) -> None:
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._ended = False
        self._connections: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", port), backlog=200)
        self.address = f"127.0.0.1:{port}"
        self._start(self._accept)

    def cut(self) -> None:
        """Nothing comes through any more."""
        self._open.clear()

    def heal(self) -> None:
        """Everything continues, with what was on its way."""
        self._open.set()

    def close(self) -> None:
        """Ends every connection."""
        self._ended = True
        self._open.set()
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for each in self._connections:
            _end(each)

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            self._connections.append(client)
            self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        self._open.wait()
        try:
            server = socket.create_connection(self._target, timeout=10)
        except OSError:
            _end(client)
            return
        server.settimeout(None)
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.append(server)
        self._start(self._carry, client, server)
        self._carry(server, client)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self._open.wait()
                sink.sendall(data)
        except OSError:
            pass
        # The end of a connection is a message like others.
        self._open.wait()
        _end(sink)
        _end(source)

    @staticmethod
    def _start(what: object, *arguments: socket.socket) -> None:
        threading.Thread(target=what, args=arguments, daemon=True).start()  # type: ignore[arg-type]


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
