"""The tests of every template pass, in one run of pytest with one Spark, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaspark.__main__ import main
from kafkaspark.scaffold.init import TEMPLATES
from tests.support.jobs.local_job import ROOT, environment

pytestmark = pytest.mark.spark


def test_the_tests_of_every_template_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for template in TEMPLATES:
        assert main(["init", f"{template}-orders", "--template", template]) == 0
    # The plugin is loaded by its name, for a folder without an installation has no entry point of it.
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "operator")])}
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "--import-mode=importlib",
            "-p", "no:cacheprovider", "-p", "kafkaspark.testing.plugin", "--durations=0", str(tmp_path),
        ],
        cwd=tmp_path, env={**environment(), **path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 passed" in ran.stdout
    print(ran.stdout)
