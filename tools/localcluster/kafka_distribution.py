"""Kafka as it lies in the cache: its jars, and two things made from them once that make every broker start faster.

The class archive spares the JVM from loading and verifying some ten thousand classes again at each start, and the
formatted storage spares a new broker from starting a JVM just to be formatted.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster import kafka_probe, kafka_properties, packages
from localcluster.commands import run
from localcluster.kafka_properties import Listener
from localcluster.ports import free_ports
from localcluster.processes import spawn
from localcluster.progress import Progress
from localcluster.settings import KAFKA_VERSION, Settings
from localcluster.waiting import wait_for

_SLF4J_VERSION = "1.7.36"  # the one that this Kafka is compiled against
_CLUSTER_ID = "a2Fma2FzcGFyay1sb2NhbA"  # 16 bytes in URL-safe base64, as Kafka wants its cluster ids
_WARM_UP_SECONDS = 60.0
_OPTIONS_FOR_ANY_JVM = {"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkaspark.local</groupId>
  <artifactId>kafka-broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{_SLF4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Of a JVM that lives for minutes: a third less CPU than with Kafka's own, most of it the compiler's."""
THROUGHPUT = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Kafka's own, for a broker that is measured."""


@dataclass(frozen=True)
class KafkaDistribution:
    """A folder with everything that brokers are started from; brokers share it and never write to it."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> KafkaDistribution:
        """Where the distribution is, or will be once :meth:`fetch` has run."""
        return cls(settings.cache / f"kafka-{KAFKA_VERSION}-slf4j-{_SLF4J_VERSION}")

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
        """Fetches and prepares what is missing; fast when nothing is.

        :raises SetupError: Java or Maven is missing and cannot be installed, or a step failed.
        """
        if self.is_ready():
            return
        packages.ensure(packages.KAFKA, settings, progress)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with progress.step("fetch Kafka"), self.folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # several tests may want their first broker at once
            if self.is_ready():
                return
            # Not among the cluster's logs: tests come here too, for whom there need not be a cluster.
            self._fetch_jars(self.folder.with_suffix(".jars.log"))
            with tempfile.TemporaryDirectory() as folder:
                self._prepare(Path(folder), self.folder.with_suffix(".prepare.log"))

    def java(self, heap: str, options: Sequence[str] = SHORT_LIVED) -> list[str]:
        """The command line of a JVM with Kafka's classes, up to the name of the class to run."""
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
        unfinished = self.folder.with_name(self.folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        (unfinished / "pom.xml").write_text(_POM)
        run(
            ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"],
            cwd=unfinished,
            log=log,
            hint="Maven needs its central repository; run the same command again to go on",
        )
        unfinished.replace(self.folder)

    def _prepare(self, folder: Path, log: Path) -> None:
        # From the folder's final place: the class archive is only good for the paths it was made with.
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
        # Other brokers may be starting right now: they see all of the file or nothing.
        unfinished = self._class_archive.with_suffix(".unfinished")
        shutil.copyfile(archive, unfinished)
        unfinished.replace(self._class_archive)


def java_environment() -> dict[str, str]:
    """The environment of a broker: options meant for other JVMs would change what is tested."""
    return {key: value for key, value in os.environ.items() if key not in _OPTIONS_FOR_ANY_JVM}
