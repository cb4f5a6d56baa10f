"""The jars of a Kafka broker, fetched with Maven and kept in the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from localcluster.commands import run
from localcluster.settings import KAFKA_VERSION, Settings

_SLF4J_VERSION = "1.7.36"  # the one that this Kafka is compiled against
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


def folder(settings: Settings) -> Path:
    """Where the jars are or will be."""
    return settings.cache / f"kafka-{KAFKA_VERSION}-slf4j-{_SLF4J_VERSION}"


def fetch(settings: Settings) -> Path:
    """The folder of the jars, fetched if it is not in the cache.

    :raises SetupError: Maven is missing or failed.
    """
    jars = folder(settings)
    if jars.exists():
        return jars
    unfinished = jars.with_name(jars.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    (unfinished / "pom.xml").write_text(_POM)
    run(
        ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"],
        cwd=unfinished,
        log=settings.logs / "kafka-jars.log",
        hint="Maven needs its central repository; run the same command again to go on",
    )
    unfinished.replace(jars)
    return jars
