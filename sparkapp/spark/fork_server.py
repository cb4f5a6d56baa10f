"""Spark's Python processes of the driver, made by forking one that has imported everything.

Spark plans a Python source in four processes, one after the other, each of which would spend a second of CPU on the
same imports that the driver itself has behind it. Spark starts them as ``python3 -m …``; in the JVM's search path the
first ``python3`` is :mod:`sparkapp.spark.forked_python`, which has the process made here and stands for it: standard
streams, environment, arguments and status are those of a process that was started. Executors, whose search path is
their own, run the real one; so does the driver where this server is not there (ADR 21).
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from sparkapp.spark import forked_python
from sparkapp.spark.preload import preload_planners

LOG = logging.getLogger(__name__)


class ForkServer:
    """The driver's side. Made before the JVM, whose environment it changes; started when the imports are done."""

    def __init__(self) -> None:
        """Writes the program; whoever runs it before :meth:`start` gets the real Python."""
        self.folder = Path(tempfile.mkdtemp(prefix="kafkaspark-python-"))
        source = Path(forked_python.__file__).read_text(encoding="utf-8")
        program = self.folder / "python3"
        program.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        program.chmod(0o700)
        self._lifeline = -1

    @property
    def environment(self) -> dict[str, str]:
        """What makes a JVM find the program: a Python that somebody has named by its path stays that one."""
        path = os.environ.get("PATH", os.defpath)
        python = os.environ.get("PYSPARK_PYTHON", "python3")
        return {"PATH": f"{self.folder}:{path}", "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}

    def start(self) -> None:
        """Imports what the forks need and begins to serve; to be called while this process has a single thread."""
        preload_planners()
        if threading.active_count() > 1:
            LOG.warning("Python processes are not forked from this one: it has threads already")
            return
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / forked_python.SOCKET))
        listener.listen(16)
        ours, lifeline = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork() == 0:
            _serve(listener, ours, self.folder)
        listener.close()
        os.close(ours)
        self._lifeline = lifeline  # open as long as this process lives


def _serve(listener: socket.socket, lifeline: int, folder: Path) -> None:
    """The server's whole life; ends with the driver and takes the folder with it."""
    # Above all the pipe that keeps the JVM alive, which is the driver's alone to hold.
    _close_all_but(listener.fileno(), lifeline)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while lifeline not in select.select([listener.fileno(), lifeline], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                _become(connection, listener, lifeline)
            connection.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _become(connection: socket.socket, listener: socket.socket, lifeline: int) -> None:
    """The fork's whole life: as the process that somebody has started."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        order = _received(connection)
        listener.close()
        os.close(lifeline)
        connection.sendall(os.getpid().to_bytes(4, "big"))
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.path[:0] = [one for one in os.environ.get("PYTHONPATH", "").split(":") if one and one not in sys.path]
        sys.argv = list(order["arguments"])
        with warnings.catch_warnings():
            # Most are imported already, which is the point.
            warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code & 0xFF if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        with suppress(OSError):
            connection.sendall(bytes([status]))
        os._exit(status)


def _received(connection: socket.socket) -> dict[str, Any]:
    """The order; the standard streams that came with it are this process's from now on."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as rest:
        order: dict[str, Any] = json.loads(rest.read(int.from_bytes(head, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return order


def _close_all_but(*kept: int) -> None:
    below = 3
    for number in sorted(kept):
        os.closerange(below, number)
        below = number + 1
    os.closerange(below, os.sysconf("SC_OPEN_MAX"))
