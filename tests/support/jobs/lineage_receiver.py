"""A collector of OpenLineage on this machine: takes events over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Receiver:
    """:ivar url: for ``OPENLINEAGE_URL``. :ivar events: in the order of their arrival."""

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def await_events(self, count: int, seconds: float) -> list[dict[str, Any]]:
        """The first events, once there are so many."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(self.events) >= count:
                return self.events[:count]
            time.sleep(0.1)
        raise AssertionError(f"fewer than {count} events within {seconds} s: {self.events}")


@contextmanager
def lineage_receiver() -> Iterator[Receiver]:
    """A receiver for the length of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/api/v1/lineage"
            receiver.events.append(json.loads(body))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
