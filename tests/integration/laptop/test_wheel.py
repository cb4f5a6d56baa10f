"""The wheel, installed from its file into an empty environment: what it weighs, and what works without PySpark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.jobs.local_job import ROOT

SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "sparkapp", "operator")
MAX_BYTES = 10_000_000
"""Of the wheel and everything that it installs by default."""


def run(*command: str, cwd: Path, **variables: str) -> str:
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, cwd=cwd, env=given | variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "source").mkdir()
    skipped = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for name in SOURCES:
        source, target = ROOT / name, folder / "source" / name
        shutil.copytree(source, target, ignore=skipped) if source.is_dir() else shutil.copy(source, target)
    build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder / "dist"), ".")
    run(sys.executable, *build, cwd=folder / "source", KAFKASPARK_NATIVE="required")
    (made,) = (folder / "dist").iterdir()
    return made


def test_the_wheel_has_the_extension_and_the_templates(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [
        name for name in names if name.startswith("sparkapp/dataplane/native/_kafka_arrow.") and name.endswith(".so")
    ]
    templates = ROOT / "operator/kafkaspark/scaffold/templates"
    wanted = {str(path.relative_to(ROOT / "operator")) for path in templates.rglob("*") if path.is_file()}
    assert {name for name in wanted if "__pycache__" not in name} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "dev/", "bench/"))]


def test_the_command_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    run("venv/bin/python", "-m", "pip", "install", "-q", str(wheel), cwd=tmp_path)
    installed = run("venv/bin/python", "-m", "pip", "list", "--format=freeze", cwd=tmp_path).split()
    assert {line.partition("==")[0].lower() for line in installed} <= {"kafkaspark", "pyyaml", "pip", "setuptools"}
    packages = tmp_path / "venv/lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    ours = ("kafkaspark*", "sparkapp", "kafkasparkjob_operator", "yaml", "[Pp]y[Yy][Aa][Mm][Ll]*", "_yaml")
    folders = [path for name in ours for path in packages.glob(name)]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    size = sum(file.stat().st_size for file in files)
    assert size < MAX_BYTES, f"{size} bytes are installed"
    kafkaspark = str(tmp_path / "venv/bin/kafkaspark")
    assert "examples:" in run(kafkaspark, "--help", cwd=tmp_path)
    run(kafkaspark, "init", "orders", "--template", "sql", cwd=tmp_path)
    assert ": valid; engine MicroBatch" in run(kafkaspark, "validate", "orders/job.yaml", cwd=tmp_path)
    assert '"engine": "MicroBatch"' in run(kafkaspark, "plan", "--output", "json", "orders/job.yaml", cwd=tmp_path)
    refused = subprocess.run(
        [kafkaspark, "dev", "job.yaml", "--input", "orders.jsonl", "--once"], cwd=tmp_path / "orders",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "pip install 'kafkaspark[local]'" in refused.stderr
