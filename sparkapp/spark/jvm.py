"""The driver's JVM, started before Python has imported PySpark: both take seconds to come up, and do so side by side.

PySpark's own way to start it comes with PySpark. This one starts the same program in the same manner, and hands PySpark
the address by the variables that it has for a gateway that is already there.
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

LOG = logging.getLogger(__name__)

_ADDRESS = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT = "PYSPARK_GATEWAY_PORT"
_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 (a variable's name)
_SECONDS = 120.0
"""A JVM that has not told its address by then is given up: PySpark starts another, and tells what prevents it."""


class Jvm:
    """One that comes up; it ends when this process does, for its standard input ends then."""

    def __init__(self, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Returns at once; called in the main thread, before there are others.

        :param settings: those of the session.
        :param environment: the JVM's own beside this process's; what it starts, Python above all, inherits it.
        """
        self.python = environment.get("PYSPARK_PYTHON", sys.executable)
        self._folder = tempfile.TemporaryDirectory(prefix="kafkaspark-jvm-")
        self._file = Path(self._folder.name) / "gateway"
        command = [str(_spark_home() / "bin" / "spark-submit")]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        # Ctrl-C is the driver's to handle: it drains. What is ignored stays ignored in the new process.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process = subprocess.Popen(
                [*command, "pyspark-shell"], stdin=subprocess.PIPE,
                env={**os.environ, **environment, "SPARK_CONNECT_MODE": "0", _ADDRESS: str(self._file)},
            )  # fmt: skip
        finally:
            signal.signal(signal.SIGINT, handler)

    def await_gateway(self) -> None:
        """Blocks until PySpark can connect, and tells it where; the session's thread calls this once.

        Where the JVM ends or says nothing PySpark is told nothing, and starts one as it always does.
        """
        end = time.monotonic() + _SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            # The JVM moves the file to its place when it is whole.
            if self._file.exists():
                content = self._file.read_bytes()
                os.environ[_PORT] = str(int.from_bytes(content[:4], "big"))
                os.environ[_SECRET] = content[8:].decode()  # after the port and its own length, four bytes each
                LOG.info("the JVM is up")
                break
            time.sleep(0.02)
        else:
            self._process.kill()
        with suppress(OSError):
            self._folder.cleanup()

    def exit_status(self, seconds: float = 2.0) -> int | None:
        """Negative for a signal; None where it still runs after so long. The driver asks when Py4J has lost it."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None


def forget_gateway() -> None:
    """Takes the address back from the environment, once PySpark is connected: it is nobody else's."""
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
