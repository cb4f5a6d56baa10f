"""The files of a release, each installed from its file. The wheel: what it weighs, and what works without PySpark."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from releasefiles.__main__ import main
from sparkapp import __version__
from tests.support.jobs.local_job import ROOT
from tests.support.kubernetes.api_server import programs
from tests.support.kubernetes.chart_images import IMAGES

MAX_BYTES = 10_000_000
"""Of the wheel and everything that it installs by default."""


def run(*command: str, cwd: Path, **variables: str) -> str:
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, cwd=cwd, env=given | variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release but its images."""
    folder = tmp_path_factory.mktemp("release")
    assert main(["--without-images", "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    (made,) = release.glob("*.whl")
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


def test_a_job_of_the_wheel_is_tested_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """``init`` and pytest, with nothing of this repository: PySpark and the clients come with the extra."""
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    # As in `make setup`, whose cache has the wheel that is built of pyspark's sources.
    built = [f"--build-constraints={ROOT / 'locks/build.txt'}", "--config-setting=--build-option=--compression=stored"]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--no-config", "--quiet", "--python=venv"]
    run(*uv, *built, f"kafkaspark[local] @ {wheel.as_uri()}", "pytest", cwd=tmp_path)
    run("venv/bin/kafkaspark", "init", "orders", cwd=tmp_path)
    assert "1 passed" in run(str(tmp_path / "venv/bin/python"), "-m", "pytest", "-q", cwd=tmp_path / "orders")


def test_the_source_archive_is_installed_with_its_extension(release: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    archive = str(release / f"kafkaspark-{__version__}.tar.gz")
    run("venv/bin/python", "-m", "pip", "install", "-q", archive, cwd=tmp_path, KAFKASPARK_NATIVE="required")
    run("venv/bin/python", "-c", "import sparkapp.dataplane.native._kafka_arrow", cwd=tmp_path)
    run("venv/bin/kafkaspark", "init", "orders", "--template", "sql", cwd=tmp_path)
    assert ": valid; engine " in run("venv/bin/kafkaspark", "validate", "orders/job.yaml", cwd=tmp_path)


def test_the_checksums_are_those_of_all_files(release: Path) -> None:
    checked = run("sha256sum", "--check", "SHA256SUMS", cwd=release).splitlines()
    assert sorted(line.removesuffix(": OK") for line in checked) == sorted(
        path.name for path in release.iterdir() if path.name != "SHA256SUMS"
    )


def test_the_wheel_names_the_systems_that_it_runs_on(wheel: Path) -> None:
    found = re.fullmatch(rf"kafkaspark-{__version__}-cp3\d+-cp3\d+-manylinux_2_(\d+)_\w+\.whl", wheel.name)
    assert found is not None, wheel.name
    # "glibc 2.36" of this machine, where the wheel was built and is installed.
    here = (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(".")[2]
    assert int(found[1]) <= int(here)


def test_the_source_archive_has_what_the_extension_is_built_from(release: Path) -> None:
    with tarfile.open(release / f"kafkaspark-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    native = ROOT / "sparkapp/dataplane/native"
    wanted = {str(path.relative_to(ROOT)) for path in native.rglob("*") if path.suffix in {".c", ".h"}}
    assert wanted <= names
    assert not [name for name in names if name.endswith((".so", ".pyc")) or name.startswith("tests/")]


def test_helm_renders_the_chart_from_its_file(release: Path, tmp_path: Path) -> None:
    helm = str(programs(tmp_path / "bin") / "helm")
    values = [part for value in IMAGES for part in ("--set", value)]
    chart = str(release / f"kafkaspark-operator-{__version__}.tgz")
    from_file, from_folder = (
        run(helm, "template", "x", place, *values, cwd=tmp_path)
        for place in (chart, str(ROOT / "charts/kafkaspark-operator"))
    )
    assert from_file == from_folder
    assert f"version: {__version__}" in run(helm, "show", "chart", chart, cwd=tmp_path)


def test_the_charts_archive_for_a_registry_is_complete(release: Path, tmp_path: Path) -> None:
    name = f"kafkaspark-operator-{__version__}"
    with tarfile.open(release / f"{name}.oci.tar") as archive:
        archive.extractall(tmp_path, filter="data")

    def blob(descriptor: dict[str, object]) -> bytes:
        content = (tmp_path / "blobs" / str(descriptor["digest"]).replace(":", "/")).read_bytes()
        assert (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content)) == (
            descriptor["digest"], descriptor["size"],
        )  # fmt: skip
        return content

    (entry,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": __version__}
    manifest = json.loads(blob(entry))
    assert json.loads(blob(manifest["config"]))["appVersion"] == __version__
    (layer,) = manifest["layers"]
    assert blob(layer) == (release / f"{name}.tgz").read_bytes()


def test_the_site_has_its_pages(release: Path) -> None:
    with tarfile.open(release / f"kafkaspark-docs-{__version__}.tar.gz") as archive:
        names = set(archive.getnames())
    assert {f"kafkaspark-docs-{__version__}/{page}" for page in ("index.html", "command-line/index.html")} <= names
