"""The classes by which Spark reaches an object store: Hadoop's connector and Amazon's client, from Maven's repository.

They belong to the Hadoop in PySpark's jars. Amazon's client is one jar of 686 MB with all of its services. The
connector needs two of them, which are 17 MB.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from localcluster.machine import packages
from localcluster.machine.cached_folder import complete, exclusive
from localcluster.machine.maven import copy_dependencies, require_checksum
from localcluster.progress import Progress
from localcluster.settings import Settings


@dataclass(frozen=True)
class Jar:
    """A file of Maven's repository."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"

    @property
    def dependency(self) -> str:
        """For a POM: the file alone, without what it depends on."""
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
            "</exclusion></exclusions></dependency>"
        )


HADOOP_VERSION = "3.5.0"
"""Of the Hadoop in PySpark's jars; a test compares them."""
CLIENT = Jar(
    "software.amazon.awssdk", "bundle", "2.35.4", "db4b55f24ad1b4e70f17eb1717a4de76a8dadc5a27d764be7c44ff67b2c1c677"
)
JARS = (
    Jar(
        "org.apache.hadoop", "hadoop-aws", HADOOP_VERSION,
        "66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa",
    ),
    Jar(
        "software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1",
        "4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e",
    ),
    CLIENT,
)  # fmt: skip
"""Versions as the POM of Hadoop's connector has them."""
SERVICES = frozenset({"s3", "sts"})
"""Of Amazon's client: objects, and credentials for an identity."""
_SERVICES = "software/amazon/awssdk/services/"
_POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>kafkaspark.local</groupId><artifactId>object-store</artifactId><version>1</version>"
    "<dependencies>{dependencies}</dependencies></project>\n"
)


@dataclass(frozen=True)
class StoreClasses:
    """A folder with the jars, for the class path of driver and executors."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> StoreClasses:
        """The folder, which exists once :meth:`fetch` has run."""
        return cls(settings.cache / cls.name())

    @staticmethod
    def name() -> str:
        """Name of the folder: it changes with the jars."""
        return f"object-store-{HADOOP_VERSION}-{CLIENT.version}"

    @property
    def class_path(self) -> str:
        """For Java, in an order that does not change."""
        return ":".join(str(jar) for jar in sorted(self.folder.glob("*.jar")))

    def fetch(self, settings: Settings, progress: Progress) -> None:
        """Downloads what is missing: 690 MB, once.

        :raises SetupError: Maven is missing and cannot be installed, a download failed, or it has another content.
        """
        if self.folder.exists():
            return
        packages.ensure(packages.KAFKA, settings, progress)
        with progress.step("download the client of object stores"), exclusive(self.folder):
            if self.folder.exists():
                return
            with complete(self.folder) as folder:
                self._fetch(folder)

    def _fetch(self, folder: Path) -> None:
        pom = _POM.format(dependencies="".join(jar.dependency for jar in JARS))
        copy_dependencies(pom, folder, log=self.folder.with_suffix(".log"))
        for jar in JARS:
            require_checksum(folder / jar.file, jar.sha256, group=jar.group)
        trim(folder / CLIENT.file, folder / "amazon-s3-client.jar")
        (folder / CLIENT.file).unlink()


def trim(bundle: Path, target: Path) -> None:
    """Copies a jar of Amazon's client without the services that nothing here uses.

    :param bundle: with all services. :param target: with :data:`SERVICES`; the same bytes for the same bundle.
    """
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for entry in source.infolist():
            service, _, file = entry.filename.removeprefix(_SERVICES).partition("/")
            is_other = entry.filename.startswith(_SERVICES) and file and service not in SERVICES
            if not (is_other or entry.is_dir() or entry.filename.startswith("META-INF/maven/")):
                made.writestr(zipfile.ZipInfo(entry.filename), source.read(entry), zipfile.ZIP_DEFLATED)
