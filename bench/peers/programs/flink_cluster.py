"""Builds the contestant of Flink: Maven downloads its jars once, and their digests are compared."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

_FOLDER = Path(__file__).with_name("flink")
_POM = _FOLDER / "pom.xml"
_DIGESTS = _FOLDER / "jars.sha256"
_SOURCES = tuple(sorted(_FOLDER.glob("*.java")))
_MEMORY = ("-Xms1g", "-Xmx2g")
_OPENED = ("java.util", "java.lang", "java.time", "java.util.concurrent")
"""Packages that Flink's serializers look into, as in the scripts that Flink comes with."""


def version() -> str:
    """The version of Flink, and of its Kafka connector."""
    namespace = {"m": "http://maven.apache.org/POM/4.0.0"}
    properties = ET.parse(_POM).getroot().find("m:properties", namespace)
    assert properties is not None
    return ", connector ".join(str(each.text) for each in properties)


def command(cache: Path) -> list[str | Path]:
    """The command line of the program; downloads and compiles what the cache lacks.

    :raises RuntimeError: the digest of a jar is not the recorded digest.
    :raises subprocess.CalledProcessError: Maven or the compiler failed; their messages are on standard error.
    """
    key = hashlib.sha256(b"".join(path.read_bytes() for path in (_POM, _DIGESTS, *_SOURCES))).hexdigest()[:12]
    built = cache / f"flink-{key}"
    if not built.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as name:
            _build(Path(name) / "flink")
            (Path(name) / "flink").replace(built)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    return [
        "java", *_MEMORY, "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", *opened,
        "-cp", f"{built / 'classes'}:{built / 'lib'}/*", "Contestant",
    ]  # fmt: skip


def _build(folder: Path) -> None:
    (folder / "classes").mkdir(parents=True)
    shutil.copy(_POM, folder)
    subprocess.run(
        ["mvn", "--batch-mode", "--quiet", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
         f"-DoutputDirectory={folder / 'lib'}", "-DincludeScope=runtime"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in (folder / "lib").glob("*.jar")}
    expected = {name: digest for digest, name in map(str.split, _DIGESTS.read_text().splitlines())}
    if found != expected:
        wrong = sorted(found.items() ^ expected.items())
        msg = f"Flink's jars are not those of {_DIGESTS}: {', '.join(sorted({name for name, _ in wrong}))}"
        raise RuntimeError(msg)
    subprocess.run(["javac", "-d", folder / "classes", "-cp", f"{folder / 'lib'}/*", *_SOURCES], check=True)
