"""The commands that a kind cluster takes, with programs in their place that write down how they were called."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster.clusters import kind
from localcluster.clusters.kind import KindCluster
from localcluster.errors import SetupError
from localcluster.images.builder import IMAGES, STORE_IMAGE, Image
from localcluster.objectstore.client import StoreClasses
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

PROGRAM = '#!/bin/sh\necho "$(basename "$0") $*" >> "$CALLS"\n'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(cache=tmp_path / "cache", state=tmp_path / "state", run=tmp_path / "run")
    made.cache.mkdir()
    return made


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with a line for each call."""
    programs, file = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    for name in ("docker", "kind", "kubectl", "helm"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(file))
    monkeypatch.setattr("localcluster.clusters.kind.kafka_probe.answers", lambda *_: True)
    return file


def test_the_nodes_are_those_of_the_projects_file(settings: Settings, calls: Path) -> None:
    KindCluster(settings, Progress()).up()
    (creating,) = (line for line in calls.read_text().splitlines() if line.startswith("kind create"))
    assert f"--config {REPOSITORY}/kind-config.yaml" in creating
    assert "--image" not in creating


def test_a_machine_without_the_public_registries_names_its_images(
    settings: Settings, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKASPARK_KIND_IMAGE", "mirror/node:1")
    monkeypatch.setenv("KAFKASPARK_DOCKER_BUILD_OPTIONS", "--network=host --build-arg='DEBIAN_ARCHIVE='")
    monkeypatch.setenv("KAFKASPARK_KAFKA_IMAGE", "mirror/kafka:1")
    cluster = KindCluster(settings, Progress())
    cluster.up()
    cluster.publish(IMAGES[0])
    made = calls.read_text().splitlines()
    assert [line for line in made if line.startswith("kind create") and line.endswith("--image mirror/node:1")]
    assert [line for line in made if line.startswith("docker build --network=host --build-arg=DEBIAN_ARCHIVE= --file")]
    assert kind.broker_command()[-1] == "mirror/kafka:1"


def test_the_image_for_object_stores_is_built_on_that_of_jobs(
    settings: Settings, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoreClasses, "fetch", lambda *_: None)
    KindCluster(settings, Progress()).publish(STORE_IMAGE)
    (built,) = (line for line in calls.read_text().splitlines() if line.startswith("docker build"))
    assert f"--build-arg=SPARKAPP={Image('sparkapp').reference}" in built
    assert f"--build-context=classes={StoreClasses.of(settings).folder}" in built
    assert built.endswith(str(STORE_IMAGE.folder))


def test_a_broker_whose_container_ends_is_not_waited_for(
    settings: Settings, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localcluster.clusters.kind.kafka_probe.answers", lambda *_: False)
    with pytest.raises(SetupError) as refused:
        KindCluster(settings, Progress()).up()
    assert "the container ended" in refused.value.what
    assert "docker logs kafkaspark-kafka" in refused.value.hint
    assert any("inspect" in line for line in calls.read_text().splitlines())
