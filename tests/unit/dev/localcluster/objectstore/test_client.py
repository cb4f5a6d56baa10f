"""The classes for object stores: those of PySpark's Hadoop, checked before they are used, and no more than needed."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

from localcluster.errors import SetupError
from localcluster.machine import maven
from localcluster.objectstore import client
from localcluster.objectstore.client import CLIENT, HADOOP_VERSION, JARS, StoreClasses, trim
from localcluster.progress import Progress
from localcluster.settings import Settings

ENTRIES = {
    "META-INF/maven/software.amazon.awssdk/s3/pom.xml": "dropped",
    "software/amazon/awssdk/core/Client.class": "kept",
    "software/amazon/awssdk/services/ec2/Ec2Client.class": "dropped",
    "software/amazon/awssdk/services/s3/S3Client.class": "kept",
    "software/amazon/awssdk/services/sts/StsClient.class": "kept",
}


def put_bundle(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for name, text in ENTRIES.items():
            made.writestr(zipfile.ZipInfo(name), text)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Maven gives each jar the content of the bundle above."""

    def run(argv: Sequence[str | Path], *, cwd: Path, **_: Any) -> None:
        assert argv[0] == "mvn"
        for jar in JARS:
            assert jar.dependency in (cwd / "pom.xml").read_text()
            put_bundle(cwd / jar.file)

    monkeypatch.setattr(maven, "run", run)
    monkeypatch.setattr(client.packages, "ensure", lambda *_: None)
    return Settings(cache=tmp_path / "cache", state=tmp_path / "state", run=tmp_path / "run")


def test_the_connector_is_that_of_pysparks_hadoop() -> None:
    (found,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert found.name == f"hadoop-client-api-{HADOOP_VERSION}.jar"


def test_they_are_downloaded_once_and_the_bundle_is_not_kept(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_bundle(tmp_path / "bundle")
    digest = hashlib.sha256((tmp_path / "bundle").read_bytes()).hexdigest()
    monkeypatch.setattr(client, "JARS", tuple(replace(jar, sha256=digest) for jar in JARS))
    classes = StoreClasses.of(settings)
    classes.fetch(settings, Progress())
    monkeypatch.setattr(maven, "run", None)
    classes.fetch(settings, Progress())
    assert [Path(jar).name for jar in classes.class_path.split(":")] == [
        "amazon-s3-client.jar", "analyticsaccelerator-s3-1.3.1.jar", "hadoop-aws-3.5.0.jar"
    ]  # fmt: skip


def test_another_content_is_refused_and_not_kept(settings: Settings) -> None:
    classes = StoreClasses.of(settings)
    with pytest.raises(SetupError, match=r"hadoop-aws-3\.5\.0\.jar has the checksum .*, not ") as caught:
        classes.fetch(settings, Progress())
    assert "delete org/apache/hadoop" in caught.value.hint
    assert not classes.folder.exists()


def test_services_that_nothing_uses_are_left_out(tmp_path: Path) -> None:
    put_bundle(tmp_path / CLIENT.file)
    trim(tmp_path / CLIENT.file, tmp_path / "first.jar")
    trim(tmp_path / CLIENT.file, tmp_path / "second.jar")
    with zipfile.ZipFile(tmp_path / "first.jar") as made:
        found = made.namelist()
    assert found == [name for name, what in ENTRIES.items() if what == "kept"]
    assert (tmp_path / "first.jar").read_bytes() == (tmp_path / "second.jar").read_bytes()
