"""The Python folders of the images, built on the host: third-party packages, and the project itself.

The stages of the same names in the Containerfiles would produce the same folders. The host can build them only with the
Python version of the images.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.images.source_date import source_date_epoch
from localcluster.machine import packages
from localcluster.machine.commands import output_of, run, succeeds
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

PYTHON = "3.11"  # of Debian 12, the base of the images
_INSTALLED_AT = f"/usr/local/lib/python{PYTHON}/dist-packages"
_GLIBC = (2, 36)  # of Debian 12: the C extension must not need a newer version
_SOURCES = ("pyproject.toml", "setup.py", "README.md", "sparkapp", "operator")
_NOT_SOURCES = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build")
_LEFT_OUT = ("**/tests", "pyspark/python/lib/*.zip")
"""As in the Containerfiles. Each of Spark's Python processes would compile the pyspark of the zip file again."""
_BUILD_LOCK = REPOSITORY / "locks" / "build.txt"
_COMPILER = packages.Need("build-essential", "gcc")
_VENV = packages.Need("python3-venv", "/usr/share/doc/python3-venv")


def host_can_build() -> bool:
    """Whether code that this host's Python builds runs in the images."""
    library, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2]) if library == "glibc" else ()
    return sys.platform == "linux" and sys.version_info[:2] == (3, 11) and bool(numbers) and numbers <= _GLIBC


class PythonTrees:
    """Builds the folders once for each state of their inputs, and keeps them in the cache."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        """Names the folders; builds nothing."""
        self._settings = settings
        self._progress = progress
        self._folder = settings.cache / "python"

    def site_packages(self, image: str) -> Path:
        """A build context whose ``out`` has the locked packages of ``image``.

        :raises SetupError: a package cannot be downloaded.
        """
        lock = REPOSITORY / "locks" / f"{image}.txt"
        made = self._folder / f"{image}-{self.site_packages_key(image)}"
        if not made.exists():
            with self._progress.step(f"install the Python packages of {image}"):
                unfinished = _fresh(made.with_suffix(".unfinished"))
                self._install(unfinished / "out", [f"--requirement={lock}", "--require-hashes"], f"packages-{image}")
                _leave_out(unfinished / "out")
                _compile(unfinished / "out")
                _date(unfinished / "out")
                unfinished.rename(made)
        return made

    def site_packages_key(self, image: str) -> str:
        """A hash of the lock file of ``image``."""
        lock = (REPOSITORY / "locks" / f"{image}.txt").read_bytes()
        return hashlib.sha256(lock + f"{_LEFT_OUT} {source_date_epoch()}".encode()).hexdigest()[:16]

    def application(self) -> Path:
        """A build context whose ``out`` has the project's own packages, with the compiled C extension.

        :raises SetupError: the build failed.
        """
        made = self._folder / f"application-{application_key()}"
        if not made.exists():
            with self._progress.step("build the project's Python packages"):
                packages.ensure([_COMPILER], self._settings, self._progress)
                unfinished = _fresh(made.with_suffix(".unfinished"))
                # From a copy: setuptools writes next to the sources, and keeps deleted files there.
                with tempfile.TemporaryDirectory() as copy:
                    for source in _SOURCES:
                        _copy(REPOSITORY / source, Path(copy) / source)
                    self._install(unfinished / "out", ["--no-deps", copy], "build-project")
                # setuptools omits an extension that does not compile; the image does not run without it.
                if not list((unfinished / "out").glob("sparkapp/dataplane/native/_kafka_arrow*.so")):
                    raise SetupError(
                        "the C extension was not built", hint=f"read {self._settings.logs / 'build-project.log'}"
                    )
                _compile(unfinished / "out")
                for outdated in self._folder.glob("application-*"):
                    if outdated != unfinished:
                        shutil.rmtree(outdated)
                unfinished.rename(made)
        return made

    def _install(self, target: Path, what: Iterable[str], log_name: str) -> None:
        installing: list[str | Path] = [
            "pip",
            "install",
            "--no-config",  # the overrides in pyproject.toml are for `make lock`
            "--quiet",
            "--python",
            sys.executable,
            # As in `make setup`: the wheel that is built of pyspark's sources is unpacked at once.
            "--config-setting=--build-option=--compression=stored",
            f"--build-constraints={_BUILD_LOCK}",
            "--target",
            target,
            *what,
        ]
        # `make setup` takes the same lock: the second of the two finds pyspark built, which takes a minute.
        with (REPOSITORY / ".python.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # The packages are locked by hash: the cache is right, however old the index finds it.
            if not succeeds([self._uv(), *installing, "--offline"]):
                run(
                    [self._uv(), *installing],
                    log=self._settings.logs / f"{log_name}.log",
                    hint="check that the Python package index is reachable, then run the same command again",
                )

    def _uv(self) -> Path:
        # The uv on PATH or of the project's environment shares its cache of packages with them.
        on_path = shutil.which("uv")
        for candidate in (Path(on_path) if on_path else None, REPOSITORY / ".venv" / "bin" / "uv"):
            if candidate is not None and candidate.exists():
                return candidate
        own = self._settings.cache / "uv"
        if not (own / "bin" / "uv").exists():
            packages.ensure([_VENV], self._settings, self._progress)
            log = self._settings.logs / "install-uv.log"
            run([sys.executable, "-m", "venv", "--clear", own], log=log)
            run(
                [own / "bin" / "pip", "install", "--quiet", "--require-hashes", f"--requirement={_BUILD_LOCK}"], log=log
            )
        return own / "bin" / "uv"


def _leave_out(folder: Path) -> None:
    for pattern in _LEFT_OUT:
        for path in [*folder.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def application_key() -> str:
    """A hash of the project's own sources."""
    content = hashlib.sha256()
    for source in _SOURCES:
        path = REPOSITORY / source
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and file.suffix not in {".pyc", ".so"}:
                content.update(f"{file.relative_to(REPOSITORY)}\0".encode() + file.read_bytes() + b"\0")
    return content.hexdigest()[:16]


def _compile(folder: Path) -> None:
    # Containers have a read-only file system, so Python cannot store compiled files there. The hashes are not checked,
    # because the files never change, while their dates do.
    compiling = ["-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    output_of([sys.executable, *compiling, "-s", folder, "-p", _INSTALLED_AT, folder])


def _date(folder: Path) -> None:
    # The class archive of Spark's jars records their dates.
    date = source_date_epoch()
    for path in folder.rglob("*"):
        os.utime(path, (date, date), follow_symlinks=False)


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        raise SetupError(f"the project cannot be built: {source} is missing")
    if source.is_dir():
        shutil.copytree(source, target, ignore=_NOT_SOURCES)
    else:
        shutil.copy2(source, target)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
