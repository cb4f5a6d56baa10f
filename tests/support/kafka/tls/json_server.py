"""A small server of JSON over HTTP or HTTPS, on a port of its own."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from localcluster.kubernetes.pki import Certificate


class Request(NamedTuple):
    """What a client sent; ``authorization`` is the header."""

    path: str
    authorization: str | None
    body: str


class Response(NamedTuple):
    """What it gets."""

    status: int
    body: Mapping[str, object]
    location: str = ""


@contextmanager
def json_server(
    answer: Callable[[Request], Response],
    *,
    host: str = "127.0.0.1",
    certificate: Certificate | None = None,
    clients: Path | None = None,
    connected: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Serves until the block ends; yields the URL without a path.

    :param host: the address that it listens at.
    :param certificate: its own; without one it speaks plain HTTP.
    :param clients: the authority of the client certificates that it asks for.
    :param connected: called for each connection.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def setup(self) -> None:
            connected()
            super().setup()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            response = answer(Request(self.path, self.headers["Authorization"], body))
            content = json.dumps(response.body).encode()
            self.send_response(response.status)
            if response.location:
                self.send_header("Location", response.location)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _serve

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
