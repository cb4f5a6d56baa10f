"""The state folder: one of our own, deleted only when it is."""

from pathlib import Path

import pytest

from localcluster import state
from localcluster.clusters import selection
from localcluster.clusters.kind import KindCluster
from localcluster.clusters.local import LocalCluster
from localcluster.errors import SetupError
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.progress import Progress
from localcluster.settings import KAFKA_VERSION, Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache=tmp_path / "cache", state=tmp_path / "state", run=tmp_path / "run")


def test_a_folder_with_other_files_is_refused_and_not_deleted(settings: Settings) -> None:
    settings.state.mkdir()
    (settings.state / "thesis.tex").touch()
    with pytest.raises(SetupError, match="did not create"), state.held(settings):
        pass
    with pytest.raises(SetupError, match="is not deleted"):
        state.purge(settings)
    assert (settings.state / "thesis.tex").exists()


def test_a_folder_of_ours_is_made_and_deleted(settings: Settings) -> None:
    with state.held(settings):
        (settings.state / "file").touch()
        state.purge(settings)
    assert not settings.state.exists()


def test_the_env_file_is_read_as_it_was_written(settings: Settings) -> None:
    values = {"KUBECONFIG": "/a/b", "KAFKASPARK_BOOTSTRAP": "127.0.0.1:1"}
    with state.held(settings):
        assert state.read_env_file(settings) == {}
        state.write_env_file(settings, values)
    assert state.read_env_file(settings) == values


@pytest.mark.parametrize(("wanted", "kind"), [("local", LocalCluster), ("kind", KindCluster)])
def test_the_environment_chooses_the_cluster(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, wanted: str, kind: type
) -> None:
    monkeypatch.setenv("KAFKASPARK_CLUSTER", wanted)
    assert isinstance(selection.choose(settings, Progress()), kind)


def test_a_running_cluster_is_not_mistaken_for_one_of_the_other_kind(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKASPARK_CLUSTER", raising=False)
    with state.held(settings):
        state.write_env_file(settings, {"KAFKASPARK_CLUSTER": "kind"})
    assert isinstance(selection.choose(settings, Progress()), KindCluster)


def test_a_meaningless_choice_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKASPARK_CLUSTER", "docker")
    with pytest.raises(SetupError, match="'docker'"):
        selection.choose(settings, Progress())


def test_paths_follow_the_environment() -> None:
    settings = Settings.from_environment({"KAFKASPARK_CACHE": "/c", "KAFKASPARK_STATE": "/s", "HOME": "/h"})
    assert (settings.cache, settings.state) == (Path("/c"), Path("/s"))


def test_brokers_have_another_version_where_the_environment_says_so() -> None:
    home = {"KAFKASPARK_CACHE": "/c", "HOME": "/h"}
    usual, other = (Settings.from_environment({**home, "KAFKASPARK_KAFKA_VERSION": each}) for each in ("", "3.9.1"))
    assert usual.kafka_version == KAFKA_VERSION
    assert KafkaDistribution.of(other).folder.name.startswith("kafka-3.9.1-")
    assert KafkaDistribution.of(other).folder != KafkaDistribution.of(usual).folder
