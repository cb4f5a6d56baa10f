"""The ``python3`` that the driver's JVM finds first: asks the fork server for a process, or runs the real Python.

The server writes this program into its socket's folder, with the interpreter in the first line. The program must start
in milliseconds, so it imports almost nothing. See :mod:`sparkapp.spark.launch.fork_server`.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType

SOCKET = "fork.sock"


def main() -> None:
    """Waits for the fork's end, forwards SIGTERM to it, and ends with its status."""
    # Until it can be forwarded: else the fork would live on without its stand-in.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # The server only runs modules; a script or a command runs in a new Python.
    connection = _ordered() if sys.argv[1:2] == ["-m"] else None
    if connection is None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 (there is no shell to want)
    answer = connection.makefile("rb")
    pid = int.from_bytes(answer.read(4), "big")

    def end(number: int, _: FrameType | None) -> None:
        if pid:
            os.kill(pid, number)

    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    status = answer.read(1)
    os._exit(status[0] if status else 1)


def _ordered() -> socket.socket | None:
    """None if no server answers: it has not begun, or its driver has ended."""
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
