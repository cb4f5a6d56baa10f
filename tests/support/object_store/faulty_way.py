"""A way to an object store that can fail, request by request: slow, throttled, away, or cut within an upload."""

from __future__ import annotations

import http.client
import math
import socket
import threading
import time
from contextlib import suppress
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.'
    b"</Message></Error>"
)
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length"})


class Fault(Enum):
    """What happens to each request while it is set."""

    NONE = auto()
    SLOW = auto()
    """A second later."""
    THROTTLED = auto()
    """The answer is 503 SlowDown, and the store never sees the request."""
    AWAY = auto()
    """The connection ends without an answer."""
    CUT = auto()
    """The store gets half of an upload, and then the connection ends on both sides."""
    UNANSWERED = auto()
    """The store does what it was asked, and the connection ends without the answer."""


class FaultyWay:
    """Listens at :attr:`endpoint` while the block runs.

    :param port: of the store. :param own: the port to listen at.
    """

    def __init__(self, port: int, *, own: int) -> None:
        self._fault, self._left = Fault.NONE, 0.0
        self._passed = 0
        self._changed = threading.Condition()
        self.endpoint = f"http://127.0.0.1:{own}"
        way = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self) -> None:
                way._forward(self, port)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing: a request is no news."""

        self._server = ThreadingHTTPServer(("127.0.0.1", own), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fail(self, fault: Fault) -> None:
        """Each request meets the fault, until :meth:`heal`."""
        with self._changed:
            self._fault, self._left = fault, math.inf

    def heal(self) -> None:
        with self._changed:
            self._fault, self._left = Fault.NONE, 0

    def strike(self, fault: Fault, requests: int, seconds: float = 300) -> None:
        """The next requests meet the fault; returns when they have, and as many others have passed since."""
        with self._changed:
            self._fault, self._left, self._passed = fault, requests, -requests
            assert self._changed.wait_for(lambda: not self._left and self._passed >= 0, seconds), f"no request: {fault}"

    def _next_fault(self, *, is_upload: bool) -> Fault:
        with self._changed:
            fault = self._fault if self._left and (is_upload or self._fault is not Fault.CUT) else Fault.NONE
            if fault is Fault.NONE:
                self._passed += 0 if self._left else 1
            else:
                self._left -= 1
            self._changed.notify_all()
            return fault

    def _forward(self, asked: BaseHTTPRequestHandler, port: int) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        fault = self._next_fault(is_upload=asked.command == "PUT" and len(body) > 1)
        if fault is Fault.AWAY:
            _hang_up(asked)
            return
        if fault is Fault.THROTTLED:
            _answer(asked, 503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
            return
        if fault is Fault.SLOW:
            time.sleep(1)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.putrequest(asked.command, asked.path, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            if fault is Fault.CUT:
                connection.send(body[: len(body) // 2])
                _hang_up(asked)
                return
            if body:
                connection.send(body)
            answer = connection.getresponse()
            content = answer.read()
            if fault is Fault.UNANSWERED:
                _hang_up(asked)
                return
            _answer(asked, answer.status, dict(answer.getheaders()), content)
        except OSError:
            _hang_up(asked)
        finally:
            connection.close()


def _answer(asked: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes) -> None:
    length = headers.get("Content-Length", headers.get("content-length", "0"))
    asked.send_response_only(status)
    for name, value in headers.items():
        if name.lower() not in _HOP_BY_HOP:
            asked.send_header(name, value)
    asked.send_header("Content-Length", length if asked.command == "HEAD" else str(len(content)))
    asked.end_headers()
    if asked.command != "HEAD":
        asked.wfile.write(content)


def _hang_up(asked: BaseHTTPRequestHandler) -> None:
    asked.close_connection = True
    with suppress(OSError):
        asked.connection.shutdown(socket.SHUT_RDWR)
