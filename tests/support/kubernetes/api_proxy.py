"""A proxy before a real API server that spoils single requests, for what a healthy one does not do when asked."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes


class Spoil(Enum):
    DROP = "drop"
    """The connection breaks before the API server has heard anything."""
    LOSE = "lose"
    """The API server does what it is asked, and the answer gets lost."""


class Refuse(NamedTuple):
    """The request ends here, with this answer."""

    status: int
    message: str = "not now"


class ApiProxy:
    """Plain HTTP on this side, the kubeconfig's server and identity on the other.

    :ivar away: nothing is answered any more.
    :ivar seen: method and status of every request, 0 for those without an answer.
    """

    def __init__(self, kubeconfig: Path) -> None:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
        self._host = configuration.host
        self._pool = kubernetes.client.rest.RESTClientObject(configuration).pool_manager
        self._spoils: dict[str, deque[tuple[Spoil | Refuse, Callable[[], None]]]] = defaultdict(deque)
        self.away = False
        self.seen: list[tuple[str, int]] = []

    def spoil(self, method: str, *spoils: Spoil | Refuse, then: Callable[[], None] = lambda: None) -> None:
        """What becomes of the next requests of this method, in order.

        :param then: called when the last of them has come, before it is answered.
        """
        for left, spoil in zip(range(len(spoils) - 1, -1, -1), spoils, strict=True):
            self._spoils[method].append((spoil, (lambda: None) if left else then))

    def forget(self) -> None:
        """From now on everything goes through."""
        self.away = False
        self._spoils.clear()

    def answer(self, method: str, path: str, content_type: str, body: bytes) -> tuple[int, bytes]:
        waiting = self._spoils[method]
        spoil, then = waiting.popleft() if waiting else (None, lambda: None)
        then()
        status, data = 0, b""
        if isinstance(spoil, Refuse) and not self.away:
            status = spoil.status
            data = json.dumps({"kind": "Status", "apiVersion": "v1", "message": spoil.message}).encode()
        elif spoil is not Spoil.DROP and not self.away:
            response = self._pool.request(
                method, self._host + path, body=body or None, headers={"Content-Type": content_type}, timeout=20,
                retries=False,
            )  # fmt: skip
            if spoil is not Spoil.LOSE:
                status, data = response.status, response.data
        self.seen.append((method, status))
        return status, data


@contextmanager
def serving(proxy: ApiProxy) -> Iterator[Any]:
    """Gives the application's client of the proxy."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            content_type = self.headers.get("Content-Type", "application/json")
            status, data = proxy.answer(self.command, self.path, content_type, body)
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = _serve

        def log_message(self, *_: object) -> None:
            """Not on the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    configuration = kubernetes.client.Configuration()
    configuration.host = f"http://127.0.0.1:{server.server_port}"
    try:
        yield kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
