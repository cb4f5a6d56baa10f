"""``kafkaspark ui``: the console in a browser, by the rights of the kubeconfig or of whoever asks; read-only."""

from __future__ import annotations

import argparse
import os
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kafkaspark.cluster.user_cluster import UserCluster
from kafkaspark.look.console import HEADERS, Console, Tail
from kafkaspark.topic import add_connection_options, connection_of
from sparkapp.cli.target import BOOTSTRAP_VARIABLE
from sparkapp.model.errors import CommandRefused

_LOOPBACK = "127.0.0.1"
_REQUEST_SECONDS = 30
_LAST_PORT = 65535
_EXAMPLES = f"""\
examples:
  kafkaspark ui
  kafkaspark ui --port 8000 --bootstrap 127.0.0.1:9092   # also shows the last records of a job's sink

The console reads what the kubeconfig's user may read, and changes nothing. {BOOTSTRAP_VARIABLE} is the default of
--bootstrap. In a cluster, --forward-authorization serves whoever sends a bearer token, with the token's own rights.
"""


def add_commands(commands: Any) -> None:
    """Registers ``ui``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "serve a console of jobs to the browser, read-only"
    command = commands.add_parser(
        "ui", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--port", type=_port, default=8899, metavar="N", help="by default 8899; 0 for any")
    command.add_argument("--context", default="", help="of the kubeconfig; by default the current one")
    command.add_argument(
        "--forward-authorization", action="store_true",
        help="in a pod: listen on every address, and ask the API server with the Authorization header of each request",
    )  # fmt: skip
    add_connection_options(command)
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    try:
        if options.forward_authorization:
            console = Console(UserCluster.of_bearer)
            server = ConsoleServer(("", options.port), console, hosts=frozenset())
        else:
            user = UserCluster.of_context(options.context)
            console = Console(lambda _: user, _tail(options))
            server = ConsoleServer((_LOOPBACK, options.port), console, hosts=frozenset({_LOOPBACK, "localhost"}))
    except OSError as error:
        msg = f"port {options.port} cannot be opened: {error}"
        raise CommandRefused(msg, remedy="kafkaspark ui --port 0") from error
    print(f"http://{_LOOPBACK}:{server.server_port}/  (Ctrl+C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= _LAST_PORT:
        msg = f"a number from 0 to {_LAST_PORT}, not {number}"
        raise argparse.ArgumentTypeError(msg)
    return number


def _tail(options: argparse.Namespace) -> Tail | None:
    if not options.bootstrap and options.config is None and not os.environ.get(BOOTSTRAP_VARIABLE):
        return None
    config = connection_of(options)

    @cache
    def topics() -> Any:
        from kafkaspark.cluster_topics import Topics

        return Topics(config)

    return lambda topic, count: [record.fields() for record in topics().last(topic, count)]


class ConsoleServer(ThreadingHTTPServer):
    """Serves a console.

    :param hosts: names that a request may have in its Host header; empty admits all. A page of another site reaches
        this server under that site's own name (DNS rebinding).
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], console: Console, *, hosts: frozenset[str]) -> None:
        super().__init__(address, _Handler)
        self.console = console
        self.hosts = hosts


class _Handler(BaseHTTPRequestHandler):
    server: ConsoleServer
    timeout = _REQUEST_SECONDS
    server_version = "kafkaspark"
    sys_version = ""

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0]
        if self.server.hosts and host not in self.server.hosts:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        answer = self.server.console.answer(self.path, self.headers.get("Authorization", ""))
        self.send_response(answer.status)
        for name, value in {**HEADERS, "Content-Type": answer.content_type}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Nothing: requests are of one person, and their paths name jobs."""
