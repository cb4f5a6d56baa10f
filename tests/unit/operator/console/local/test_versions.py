"""The versions that an environment is compared with are those of the image."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkaspark.local import versions

LOCK = (Path(__file__).parents[5] / "locks/sparkapp.txt").read_text(encoding="utf-8")


def test_the_versions_are_those_of_the_lock() -> None:
    assert {package: re.findall(rf"^{package}==(\S+)", LOCK, re.MULTILINE) for package in versions.IMAGE} == {
        package: [wanted] for package, wanted in versions.IMAGE.items()
    }


def test_the_environment_of_the_locks_has_no_difference() -> None:
    assert list(versions.differences()) == []


def test_another_version_and_a_missing_package_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "IMAGE", {"pyarrow": "1.0.0", "no-such-package": "2.0.0"})
    other, missing = versions.differences()
    assert re.fullmatch(r"pyarrow is [\d.]+ here and 1\.0\.0 in the job image", other)
    assert missing == "no-such-package is missing here and 2.0.0 in the job image"
    assert versions.remedy() == "pip install pyarrow==1.0.0 no-such-package==2.0.0"
