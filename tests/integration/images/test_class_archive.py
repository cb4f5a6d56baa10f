"""Class archives of the same classes are equal bit by bit, with the image's own script and a shorter list."""

from __future__ import annotations

import os
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from localcluster.settings import REPOSITORY

SCRIPT = REPOSITORY / "sparkapp" / "spark" / "launch" / "archive" / "class_archive.py"
CLASSES = 600
"""The classes of a JVM's start, in which two threads load classes, are in every archive."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if os.geteuid() != 0:
        pytest.skip("only root may choose how the JVM is scheduled")
    lines = SCRIPT.with_name("classes.list").read_text(encoding="utf-8").splitlines()
    classes = tmp_path_factory.mktemp("classes") / "classes.list"
    classes.write_text("\n".join([line for line in lines if line.startswith("java/")][:CLASSES]), encoding="utf-8")
    found = runpy.run_path(str(SCRIPT))
    found["main"].__globals__["CLASSES"] = classes
    return found


def archived(script: dict[str, Any], folder: Path) -> bytes:
    script["main"](folder)
    content = (folder / "classes.jsa").read_bytes()
    assert len(content) > 1_000_000
    return content


def test_two_archives_are_equal(script: dict[str, Any], tmp_path: Path) -> None:
    assert archived(script, tmp_path / "first") == archived(script, tmp_path / "second")


def test_an_archive_is_the_same_where_the_jvm_waits_for_the_disk(
    script: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the main thread waits, the thread of finalizers creates symbols. The script creates the archive again."""
    expected = archived(script, tmp_path / "cached")
    monkeypatch.setitem(script["main"].__globals__, "_read_ahead", _forget_files)
    assert archived(script, tmp_path / "read") == expected


def _forget_files(_jars: Sequence[Path]) -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
