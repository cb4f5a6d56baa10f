"""Makes Spark's Python processes of the driver as forks of a process that has imported everything (ADR 21).

Spark plans a Python source in four processes, one after the other. Each would spend a second of CPU on imports that the
driver has already done. Spark starts them as ``python3 -m …``. The first ``python3`` in the JVM's search path is
:mod:`sparkapp.spark.launch.forked_python`, which asks this server for the process and stands for it. Standard streams,
environment, arguments and status are those of a started process.

Executors have their own search path and run the real ``python3``. So does the driver when this server does not run.
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

from sparkapp.spark.launch import forked_python
from sparkapp.spark.launch.preload import preload_planners

LOG = logging.getLogger(__name__)


class ForkServer:
    """The driver's side; made before the JVM, whose environment it changes, and started after the imports."""

    def __init__(self) -> None:
        """Writes the ``python3`` program; before :meth:`start` it runs the real Python."""
        self.folder = Path(tempfile.mkdtemp(prefix="kafkaspark-python-"))
        source = Path(forked_python.__file__).read_text(encoding="utf-8")
        program = self.folder / "python3"
        program.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        program.chmod(0o700)
        self._lifeline = -1

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which the JVM finds the program. A Python that the user names by its path is kept."""
        path = os.environ.get("PATH", os.defpath)
        python = os.environ.get("PYSPARK_PYTHON", "python3")
        return {"PATH": f"{self.folder}:{path}", "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}

    def start(self) -> None:
        """Imports the modules that the forks need and begins to serve; called while the process has a single thread."""
        preload_planners()
        if threading.active_count() > 1:
            LOG.warning("Python processes are started, not forked: the driver already has threads")
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
        self._lifeline = lifeline  # open until this process ends


def _serve(listener: socket.socket, lifeline: int, folder: Path) -> None:
    """The server process: ends with the driver and removes the folder."""
    # Above all the pipe that keeps the JVM alive: only the driver may hold it.
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
    """The forked process, from its order to its exit status."""
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
        folders = os.environ.get("PYTHONPATH", "").split(":")
        sys.path[:0] = [folder for folder in folders if folder and folder not in sys.path]
        sys.argv = list(order["arguments"])
        with warnings.catch_warnings():
            # runpy warns of modules that are imported already.
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
    """The order; its standard streams become this process's."""
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
