"""The schema registry of tests: what was downloaded is checked before it is used."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from localcluster.errors import SetupError
from localcluster.kafka import registry_distribution
from localcluster.kafka.registry_distribution import RegistryDistribution
from localcluster.machine import maven
from localcluster.progress import Progress
from localcluster.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache=tmp_path / "cache", state=tmp_path / "state", run=tmp_path / "run")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run; Maven puts an archive with the registry's jar into its folder."""
    seen: list[list[str]] = []

    def run(argv: Sequence[str | Path], *, cwd: Path | None = None, **_: Any) -> None:
        seen.append([str(argument) for argument in argv])
        if argv[0] == "mvn":
            assert cwd is not None
            (cwd / "apicurio-registry-app-3.3.3-all.tar.gz").write_bytes(archive())

    monkeypatch.setattr(registry_distribution, "run", run)
    monkeypatch.setattr(maven, "run", run)
    monkeypatch.setattr(registry_distribution.packages, "ensure", lambda *_: None)
    return seen


def archive() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as packed:
        member = tarfile.TarInfo("quarkus-run.jar")
        member.size = 3
        packed.addfile(member, io.BytesIO(b"jar"))
    content = made.getvalue()
    return content[:4] + bytes(4) + content[8:]  # without the time of the compression


def test_it_is_downloaded_once(settings: Settings, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_distribution, "_SHA256", hashlib.sha256(archive()).hexdigest())
    distribution = RegistryDistribution.of(settings)
    for _ in range(2):
        distribution.fetch(settings, Progress())
    assert distribution.program.read_bytes() == b"jar"
    assert [command[0] for command in commands][1:] == ["mvn"]
    assert "--require-hashes" in commands[0]


def test_another_content_is_refused_and_not_kept(settings: Settings, commands: list[list[str]]) -> None:
    distribution = RegistryDistribution.of(settings)
    with pytest.raises(SetupError, match=r"has the checksum .*, not ") as caught:
        distribution.fetch(settings, Progress())
    assert "delete io/apicurio" in caught.value.hint
    assert not distribution.folder.exists()
    assert commands
