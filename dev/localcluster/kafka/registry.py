"""A real schema registry for a test, with its schemas in memory.

::

    with Registry(tmp_path) as registry:
        SchemaRegistryClient({"url": registry.url})
"""

from __future__ import annotations

import http.client
import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster.kafka.distribution import SHORT_LIVED, java_environment
from localcluster.kafka.registry_distribution import RegistryDistribution
from localcluster.machine.ports import free_ports
from localcluster.machine.processes import Identity, spawn
from localcluster.machine.waiting import wait_for
from localcluster.progress import Progress
from localcluster.settings import Settings

_START_SECONDS = 240.0
_STOP_SECONDS = 20.0
_PATH = "/apis/ccompat/v7"
"""Where it has the interface of Confluent's registry."""


class Registry:
    """A registry on a free loopback port; it starts and ends with the block.

    :param directory: of its log.
    :raises SetupError: it cannot be downloaded, or does not start.
    """

    def __init__(self, directory: Path) -> None:
        settings = Settings.from_environment()
        self._distribution = RegistryDistribution.of(settings)
        self._distribution.fetch(settings, Progress())
        self._directory = directory
        self._port, self._management = free_ports(2)
        self._process: Identity | None = None

    @property
    def url(self) -> str:
        """The address for clients on this machine."""
        return f"http://127.0.0.1:{self._port}{_PATH}"

    def answers(self) -> bool:
        """Whether it lists its subjects."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", f"{_PATH}/subjects")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def __enter__(self) -> Self:
        log = self._directory / "registry.log"
        options = {
            "quarkus.http.host": "127.0.0.1", "quarkus.http.port": str(self._port),
            "quarkus.management.host": "127.0.0.1", "quarkus.management.port": str(self._management),
        }  # fmt: skip
        command: list[str | Path] = [
            *(self._distribution.java, "-Xmx512m", *SHORT_LIVED),
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-jar", self._distribution.program),
        ]
        self._process = spawn(command, log, cwd=self._directory, environment=java_environment())
        try:
            wait_for("the registry answers", self.answers, seconds=_START_SECONDS, process=self._process, log=log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends it like a crash: nobody reads its schemas again."""
        self._end()

    def _end(self) -> None:
        if self._process is not None and self._process.send(signal.SIGKILL):
            self._process.wait_until_gone(_STOP_SECONDS)
