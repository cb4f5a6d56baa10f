"""Packages are installed as the lock files have them, whatever the package index has today.

uv applies ``override-dependencies`` of pyproject.toml also to the requirements of a lock file, unless it reads no
configuration. Then a newer release than the locked release is chosen, and refused because it has no hash.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localcluster.images import python_trees
from localcluster.images.python_trees import PythonTrees

MAKEFILE = Path(__file__).parents[5] / "Makefile"


def test_make_installs_without_configuration() -> None:
    installs = re.findall(r"/uv pip install .*--require-hashes", MAKEFILE.read_text(encoding="utf-8"))
    assert len(installs) == 2
    assert all(" --no-config " in each for each in installs)


def test_images_are_installed_without_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[list[object]] = []

    def succeeds(command: list[object]) -> bool:
        commands.append(command)
        return True

    monkeypatch.setattr(python_trees, "succeeds", succeeds)
    trees = object.__new__(PythonTrees)
    trees._install(tmp_path, ["--requirement=lock", "--require-hashes"], "log")
    assert ["--no-config" in command for command in commands] == [True]
