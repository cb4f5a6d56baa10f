"""Two class archives of the same classes are equal bit by bit, with the image's own script and a shorter list."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

from localcluster.settings import REPOSITORY

SCRIPT = REPOSITORY / "images" / "sparkapp" / "class_archive.py"
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


def test_two_archives_are_equal(script: dict[str, Any], tmp_path: Path) -> None:
    for folder in ("first", "second"):
        script["main"](tmp_path / folder)
    first, second = ((tmp_path / folder / "classes.jsa").read_bytes() for folder in ("first", "second"))
    assert len(first) > 1_000_000
    assert first == second
