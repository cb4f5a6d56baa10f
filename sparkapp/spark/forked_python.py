"""The ``python3`` that the driver's JVM finds first: has the fork server make the process, or becomes the real one.

A program of its own, which the server writes beside its socket with the interpreter in its first line; it must start
in milliseconds, so it imports next to nothing. See :mod:`sparkapp.spark.fork_server`.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType

SOCKET = "fork.sock"


def main() -> None:
    """Waits for the fork's end, passes SIGTERM on to it, and ends with its status."""
    # Only modules are run by the server; a script or a command gets a Python of its own.
    connection = _ordered() if sys.argv[1:2] == ["-m"] else None
    if connection is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 (there is no shell to want)
    answer = connection.makefile("rb")
    pid = int.from_bytes(answer.read(4), "big")

    def end(number: int, _: FrameType | None) -> None:
        if pid:
            os.kill(pid, number)

    signal.signal(signal.SIGTERM, end)
    status = answer.read(1)
    os._exit(status[0] if status else 1)


def _ordered() -> socket.socket | None:
    """None where no server answers: it has not begun, or its driver has ended."""
    order = json.dumps({"arguments": sys.argv[2:], "environment": dict(os.environ)}).encode()
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), SOCKET))
        socket.send_fds(connection, [len(order).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(order)
    except OSError:
        connection.close()
        return None
    return connection


if __name__ == "__main__":
    main()
