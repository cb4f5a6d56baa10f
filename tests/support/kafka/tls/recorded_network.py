"""A network that remembers every byte that goes through it, as somebody who listens would."""

from __future__ import annotations

import socket

from tests.support.kafka.cut_network import Network


class RecordedNetwork(Network):
    """See :class:`Network`; :attr:`sent` is what clients sent."""

    def __init__(self, target: tuple[str, int], *, port: int) -> None:
        self.sent = bytearray()
        super().__init__(target, port=port)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        super()._carry(_Recorded(source, self.sent, self._target), sink)  # type: ignore[arg-type]


class _Recorded:
    """A socket of which each byte that is received from a client is kept."""

    def __init__(self, inner: socket.socket, kept: bytearray, target: tuple[str, int]) -> None:
        self._inner = inner
        self._kept = kept
        self._from_client = inner.getpeername() != target

    def recv(self, size: int) -> bytes:
        data = self._inner.recv(size)
        if self._from_client:
            self._kept += data
        return data

    def shutdown(self, how: int) -> None:
        self._inner.shutdown(how)

    def close(self) -> None:
        self._inner.close()
