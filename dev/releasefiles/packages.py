"""The Python packages of a release: source archive, and a wheel for the Linux systems that its extension runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.settings import REPOSITORY

SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md", "sparkapp", "operator")
_GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)")
_OLDEST = (2, 17)
"""Of the platform tags of PEP 600."""
_EXTENSION = "sparkapp/dataplane/native/_kafka_arrow."


def write_packages(folder: Path) -> None:
    """Writes sdist and wheel. The wheel is built from the sdist, so what a user builds is what was tested.

    :raises SetupError: a build failed.
    """
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "source"
        source.mkdir()
        skipped = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        for name in SOURCES:
            origin, target = REPOSITORY / name, source / name
            shutil.copytree(origin, target, ignore=skipped) if origin.is_dir() else shutil.copy(origin, target)
        # Headers of the extension and data files, which setuptools would leave out of a source archive.
        (source / "MANIFEST.in").write_text("graft sparkapp\ngraft operator\nglobal-exclude *.pyc *.so\n")
        _run(
            [sys.executable, "-c", f"from setuptools import build_meta as b; b.build_sdist({str(folder)!r})"], source
        )  # fmt: skip
        (sdist,) = folder.glob("kafkaspark-*.tar.gz")
        unpacked = Path(work) / "sdist"
        shutil.unpack_archive(sdist, unpacked)
        (tree,) = unpacked.iterdir()
        first = _wheel(tree, Path(work) / "first", platform="")
        _wheel(tree, folder, platform=platform_of(first))


def platform_of(wheel: Path) -> str:
    """The platform tag of PEP 600 for a wheel: of the newest symbol of the C library that its extension asks for."""
    with zipfile.ZipFile(wheel) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist() if name.startswith(_EXTENSION))
    if not content:
        msg = f"{wheel.name} has no extension"
        raise SetupError(msg)
    major, minor = max([_OLDEST, *((int(high), int(low)) for high, low in _GLIBC.findall(content))])
    return f"manylinux_{major}_{minor}_{os.uname().machine}"


def _wheel(source: Path, folder: Path, *, platform: str) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    if platform:
        command.append(f"--config-setting=--build-option=--plat-name={platform}")
    _run([*command, "."], source)
    (made,) = folder.glob("kafkaspark-*.whl")
    return made


def _run(command: list[str], folder: Path) -> None:
    # Without a C compiler setuptools would leave the extension out.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env={**environment, "KAFKASPARK_NATIVE": "required"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        msg = f"{' '.join(command[:4])} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        raise SetupError(msg)
