"""Starts the driver's JVM while Python still imports PySpark: each of the two takes seconds (ADR 16).

PySpark starts its JVM only after its own import. This module starts the same program in the same way. PySpark then gets
the address from its variables for a gateway that already runs.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sparkapp.spark.launch.user_modules import python_path

LOG = logging.getLogger(__name__)

_ADDRESS = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT = "PYSPARK_GATEWAY_PORT"
_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 (a variable's name)
_SECONDS = 120.0
"""A JVM without an address by then is killed. PySpark starts another JVM, and raises the cause if that fails."""


class Jvm:
    """A JVM that comes up. It ends with this process, because its standard input ends then."""

    def __init__(self, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Returns at once; called in the main thread, before other threads exist.

        :param settings: of the session.
        :param environment: the JVM's variables in addition to this process's. Its child processes inherit them.
        """
        self.python = environment.get("PYSPARK_PYTHON", sys.executable)
        self._folder = tempfile.TemporaryDirectory(prefix="kafkaspark-jvm-")
        self._file = Path(self._folder.name) / "gateway"
        self._is_used = False
        command = [str(_spark_home() / "bin" / "spark-submit")]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        # On Ctrl-C the driver drains, so the JVM must ignore it. The new process inherits an ignored signal.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process = subprocess.Popen(
                [*command, "pyspark-shell"], stdin=subprocess.PIPE,
                env={
                    **os.environ, **python_path(), **environment, "SPARK_CONNECT_MODE": "0", _ADDRESS: str(self._file)
                },
            )  # fmt: skip
        finally:
            signal.signal(signal.SIGINT, handler)

    def await_gateway(self) -> None:
        """Blocks until PySpark can connect, then sets the address in the environment; the session's thread calls it.

        If the JVM ends or has no address in time, nothing is set, and PySpark starts a JVM itself.
        """
        end = time.monotonic() + _SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            # The JVM renames the file when it is complete.
            if self._file.exists():
                content = self._file.read_bytes()
                os.environ[_PORT] = str(int.from_bytes(content[:4], "big"))
                os.environ[_SECRET] = content[8:].decode()  # after the port and its own length, four bytes each
                self._is_used = True
                LOG.info("the JVM is up")
                break
            time.sleep(0.02)
        else:
            self._process.kill()
        with suppress(OSError):
            self._folder.cleanup()

    def exit_status(self, seconds: float) -> int | None:
        """Negative for a signal; None if it still runs after this time. The driver asks when its attempt fails.

        None also if it ended before PySpark could use it: the attempt has another JVM then.
        """
        if not self._is_used:
            return None
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None


def forget_gateway() -> None:
    """Removes the address from the environment, once PySpark is connected: child processes must not inherit it."""
    for name in (_PORT, _SECRET):
        os.environ.pop(name, None)


def _spark_home() -> Path:
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home)
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
