"""Tests with an API server of their own are skipped only where Kubernetes was never built."""

from pathlib import Path

import pytest

from localcluster.kubernetes.go_build import HYPERKUBE, cached
from localcluster.settings import Settings
from tests.support.kubernetes.api_server import programs


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program of the present sources would be."""
    monkeypatch.setenv("KAFKASPARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)
    return cached(HYPERKUBE, Settings.from_environment())


def test_a_machine_that_never_built_kubernetes_skips(built: Path, tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="make cluster-up"):
        programs(tmp_path / "bin")


def test_ci_fails_instead(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="Fix: make cluster-up"):
        programs(tmp_path / "bin")


def test_a_program_of_other_sources_fails_with_the_command_that_builds_it(built: Path, tmp_path: Path) -> None:
    older = built.parent.with_name(f"{HYPERKUBE.name}-0123456789abcdef") / HYPERKUBE.name
    older.parent.mkdir(parents=True)
    older.touch()
    with pytest.raises(pytest.fail.Exception, match="Fix: make cluster-down cluster-up"):
        programs(tmp_path / "bin")
    built.parent.mkdir()
    built.touch()
    assert (programs(tmp_path / "bin") / "kube-apiserver").resolve() == built
