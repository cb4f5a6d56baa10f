"""Kafka in the cache: its jars, a class archive and a formatted storage, which make every broker start faster.

With the class archive the JVM does not load and verify some ten thousand classes at each start. With the formatted
storage a new broker needs no JVM to format its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.kafka import probe as kafka_probe
from localcluster.kafka import properties as kafka_properties
from localcluster.kafka.properties import Listener
from localcluster.machine import packages
from localcluster.machine.cached_folder import complete, exclusive
from localcluster.machine.commands import run
from localcluster.machine.maven import copy_dependencies
from localcluster.machine.ports import free_ports
from localcluster.machine.processes import spawn
from localcluster.machine.waiting import wait_for
from localcluster.progress import Progress
from localcluster.settings import Settings

_SLF4J_VERSION = "1.7.36"  # the version that Kafka 3.9 to 4.3 are compiled against
_CLUSTER_ID = "a2Fma2FzcGFyay1sb2NhbA"  # 16 bytes in URL-safe base64, the format of Kafka's cluster ids
_WARM_UP_SECONDS = 240.0
_OPTIONS_FOR_ANY_JVM = {"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkaspark.local</groupId>
  <artifactId>kafka-broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{kafka}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{slf4j}</version>
    </dependency>
  </dependencies>
</project>
"""


SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for a JVM that runs for minutes: a third less CPU than with Kafka's own options, mostly of the compiler."""
THROUGHPUT = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Kafka's own options, for a broker that is measured."""


@dataclass(frozen=True)
class KafkaDistribution:
    """A folder with jars, class archive and storage. Brokers share it and never write to it."""

    folder: Path
    version: str

    @classmethod
    def of(cls, settings: Settings) -> KafkaDistribution:
        """The distribution, which exists once :meth:`fetch` has run."""
        version = settings.kafka_version
        return cls(settings.cache / f"kafka-{version}-slf4j-{_SLF4J_VERSION}", version)

    @property
    def formatted_storage(self) -> Path:
        """The ``log.dirs`` of a broker that has never run; each new broker gets a copy."""
        return self.folder / "formatted-storage"

    @property
    def _class_archive(self) -> Path:
        return self.folder / "broker.jsa"

    def is_ready(self) -> bool:
        """Whether brokers can be started from it."""
        return self._class_archive.exists() and self.formatted_storage.exists()

    def fetch(self, settings: Settings, progress: Progress) -> None:
        """Downloads and prepares what is missing.

        :raises SetupError: Java or Maven is missing and cannot be installed, or a step failed.
        """
        if self.is_ready():
            return
        packages.ensure(packages.KAFKA, settings, progress)
        with progress.step("download Kafka"), exclusive(self.folder):
            if self.is_ready():
                return
            # Not among the cluster's logs: tests call this too, where there may be no cluster.
            self._fetch_jars(self.folder.with_suffix(".jars.log"))
            with tempfile.TemporaryDirectory() as folder:
                self._prepare(Path(folder), self.folder.with_suffix(".prepare.log"))

    def java(self, heap: str, options: Sequence[str] = SHORT_LIVED) -> list[str]:
        """The command line of a JVM with Kafka's classes, without the name of the class to run."""
        archive = [f"-XX:SharedArchiveFile={self._class_archive}"] if self._class_archive.exists() else []
        return [
            "java",
            f"-Xmx{heap}",
            *options,
            *archive,
            "-Djava.awt.headless=true",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
            "-cp",
            f"{self.folder}/*",
        ]

    def _fetch_jars(self, log: Path) -> None:
        if self.folder.exists():
            return
        with complete(self.folder) as folder:
            copy_dependencies(_POM.format(kafka=self.version, slf4j=_SLF4J_VERSION), folder, log=log)

    def _prepare(self, folder: Path, log: Path) -> None:
        # In the folder's final place: the class archive is only valid for the paths it was created with.
        port, controller_port = free_ports(2)
        listener = Listener("HOST", "127.0.0.1", port)
        controller = Listener("CONTROLLER", "127.0.0.1", controller_port)
        data, properties = folder / "data", folder / "server.properties"
        properties.write_text(kafka_properties.render([listener], controller, data))
        run(
            [
                *self.java("256m"),
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                _CLUSTER_ID,
                "--config",
                properties,
            ],
            log=log,
        )
        shutil.rmtree(self.formatted_storage, ignore_errors=True)
        shutil.copytree(data, self.formatted_storage)

        archive = folder / "broker.jsa"
        command: list[str | Path] = [
            *self.java("512m"),
            f"-XX:ArchiveClassesAtExit={archive}",
            "kafka.Kafka",
            properties,
        ]
        broker = spawn(command, log, environment=java_environment())
        try:
            serving = "Kafka answers"
            wait_for(
                serving,
                lambda: kafka_probe.answers("127.0.0.1", port),
                seconds=_WARM_UP_SECONDS,
                process=broker,
                log=log,
            )
            broker.send(signal.SIGTERM)
            broker.wait_until_gone(_WARM_UP_SECONDS)
        finally:
            broker.send(signal.SIGKILL)
        # Other brokers may be starting now: they see the complete file or none.
        unfinished = self._class_archive.with_suffix(".unfinished")
        shutil.copyfile(archive, unfinished)
        unfinished.replace(self._class_archive)


def java_environment() -> dict[str, str]:
    """The environment of a broker, without options that are meant for other JVMs."""
    return {key: value for key, value in os.environ.items() if key not in _OPTIONS_FOR_ANY_JVM}
