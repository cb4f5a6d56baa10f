"""A real schema registry for a test, with its schemas in memory.

::

    with Registry(tmp_path) as registry:
        SchemaRegistryClient({"url": registry.url})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster.kafka.distribution import SHORT_LIVED, java_environment
from localcluster.kafka.registry_distribution import RegistryDistribution
from localcluster.machine.http_server import HttpServer
from localcluster.machine.ports import free_ports
from localcluster.progress import Progress
from localcluster.settings import Settings

_PATH = "/apis/ccompat/v7"
"""Where it has the interface of Confluent's registry."""


class Registry(HttpServer):
    """A registry on a free loopback port; it starts and ends with the block.

    :param directory: of its log.
    :raises SetupError: it cannot be downloaded, or does not start.
    """

    title = "the registry"
    log_name = "registry.log"
    ready_path = f"{_PATH}/subjects"
    start_seconds = 240.0

    def __init__(self, directory: Path) -> None:
        settings = Settings.from_environment()
        self._distribution = RegistryDistribution.of(settings)
        self._distribution.fetch(settings, Progress())
        port, self._management = free_ports(2)
        super().__init__(directory, port)

    @property
    def url(self) -> str:
        """The address for clients on this machine."""
        return f"http://127.0.0.1:{self.port}{_PATH}"

    def _command(self) -> Sequence[str | Path]:
        options = {
            "quarkus.http.host": "127.0.0.1", "quarkus.http.port": str(self.port),
            "quarkus.management.host": "127.0.0.1", "quarkus.management.port": str(self._management),
        }  # fmt: skip
        return [
            *(self._distribution.java, "-Xmx512m", *SHORT_LIVED),
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-jar", self._distribution.program),
        ]

    def _environment(self) -> Mapping[str, str]:
        return java_environment()
