"""A store with the S3 protocol for a test, with its objects in memory.

::

    with ObjectStoreServer(tmp_path) as store:
        S3Storage(bucket=BUCKET, endpoint=store.endpoint, path_style_access=True)

It is gofakes3 behind real HTTP. SeaweedFS was not tried to the end: its modules are 2.5 GB, and took nine minutes to
fetch.
"""

from __future__ import annotations

import http.client
import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster.kubernetes.go_build import GoProgram, build
from localcluster.machine.ports import free_ports
from localcluster.machine.processes import Identity, spawn
from localcluster.machine.waiting import wait_for
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

BUCKET = "state"
PROGRAM = GoProgram(
    name="objectstore", sources=REPOSITORY / "dev" / "localcluster" / "objectstore" / "server", variables=()
)
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0


class ObjectStoreServer:
    """A server on a free loopback port; it starts and ends with the block. It takes any access key.

    :param directory: of its log.
    :raises SetupError: it cannot be built, or does not start.
    """

    def __init__(self, directory: Path) -> None:
        settings, progress = Settings.from_environment(), Progress()
        with progress.step("build an object store") as step:
            self._program = build(PROGRAM, settings, step)
        self._directory = directory
        (self.port,) = free_ports(1)
        self._process: Identity | None = None

    @property
    def endpoint(self) -> str:
        """The address for clients on this machine."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        """Whether it lists its buckets."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def __enter__(self) -> Self:
        log = self._directory / "object-store.log"
        command: list[str | Path] = [self._program, "-address", f"127.0.0.1:{self.port}", "-bucket", BUCKET]
        self._process = spawn(command, log, cwd=self._directory)
        try:
            wait_for("the object store answers", self.answers, seconds=_START_SECONDS, process=self._process, log=log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends it like a crash: nobody reads its objects again."""
        self._end()

    def _end(self) -> None:
        if self._process is not None and self._process.send(signal.SIGKILL):
            self._process.wait_until_gone(_STOP_SECONDS)
