"""The Python folders that go into the images, made on the host: third-party packages, and the project itself.

Both are what the Containerfiles' stages of the same purpose would make, so the images do not depend on where they
were built. The host can make them only with the Python that the images have.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from localcluster import packages
from localcluster.commands import output_of, run, succeeds
from localcluster.errors import SetupError
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

PYTHON = "3.11"  # of Debian 12, which the images are made of
_INSTALLED_AT = f"/usr/local/lib/python{PYTHON}/dist-packages"
_GLIBC = (2, 36)  # of Debian 12: a newer one on the host would end up in the C extension
_SOURCES = ("pyproject.toml", "setup.py", "README.md", "sparkapp", "operator")
_NOT_SOURCES = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "build")
_LEFT_OUT = ("**/tests", "pyspark/python/lib/*.zip")
"""As the Containerfiles do. From its zip file each of Spark's Python processes would compile pyspark anew."""
_COMPILER = packages.Need("build-essential", "gcc")
_VENV = packages.Need("python3-venv", "/usr/share/doc/python3-venv")


def host_can_build() -> bool:
    """Whether what this host's Python builds runs in the images."""
    library, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2]) if library == "glibc" else ()
    return sys.platform == "linux" and sys.version_info[:2] == (3, 11) and bool(numbers) and numbers <= _GLIBC


class PythonTrees:
    """Makes the folders once for each state of what they are made from, and keeps them in the cache."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        """Describes; makes nothing."""
        self._settings = settings
        self._progress = progress
        self._folder = settings.cache / "python"

    def site_packages(self, image: str) -> Path:
        """A build context whose ``out`` has the locked packages of ``image``.

        :raises SetupError: a package cannot be had.
        """
        lock = REPOSITORY / "locks" / f"{image}.txt"
        made = self._folder / f"{image}-{self.site_packages_key(image)}"
        if not made.exists():
            with self._progress.step(f"install the Python packages of {image}"):
                unfinished = _fresh(made.with_suffix(".unfinished"))
                self._install(unfinished / "out", [f"--requirement={lock}", "--require-hashes"], f"packages-{image}")
                _leave_out(unfinished / "out")
                _compile(unfinished / "out")
                unfinished.rename(made)
        return made

    def site_packages_key(self, image: str) -> str:
        """Names one state of the lock of ``image``."""
        lock = (REPOSITORY / "locks" / f"{image}.txt").read_bytes()
        return hashlib.sha256(lock + " ".join(_LEFT_OUT).encode()).hexdigest()[:16]

    def application(self) -> Path:
        """A build context whose ``out`` has the project's own packages, C extension compiled.

        :raises SetupError: the build failed.
        """
        made = self._folder / f"application-{application_key()}"
        if not made.exists():
            with self._progress.step("build the project"):
                packages.ensure([_COMPILER], self._settings, self._progress)
                unfinished = _fresh(made.with_suffix(".unfinished"))
                # From a copy: setuptools writes beside the sources, and keeps files there that are long deleted.
                with tempfile.TemporaryDirectory() as copy:
                    for source in _SOURCES:
                        _copy(REPOSITORY / source, Path(copy) / source)
                    self._install(unfinished / "out", ["--no-deps", copy], "build-project")
                # setuptools leaves out an extension that does not compile; the image refuses to run without it.
                if not list((unfinished / "out").glob("sparkapp/native/_kafka_arrow*.so")):
                    raise SetupError(
                        "the C extension was not built", hint=f"see {self._settings.logs / 'build-project.log'}"
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
            "--quiet",
            "--python",
            sys.executable,
            # As `make setup` does: the wheel that is built of pyspark's sources is unpacked at once.
            "--config-setting=--build-option=--compression=stored",
            "--target",
            target,
            *what,
        ]
        # `make setup` takes the same lock: whoever comes second finds pyspark, which takes a minute to build, built.
        with (REPOSITORY / ".python.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Locked by hash, so what is in the cache is right, whatever the index says about how fresh it is.
            if not succeeds([self._uv(), *installing, "--offline"]):
                run(
                    [self._uv(), *installing],
                    log=self._settings.logs / f"{log_name}.log",
                    hint="the packages come from the Python package index; run the same command again to go on",
                )

    def _uv(self) -> Path:
        # The one on PATH or of the project's environment shares its cache of packages with them.
        on_path = shutil.which("uv")
        for candidate in (Path(on_path) if on_path else None, REPOSITORY / ".venv" / "bin" / "uv"):
            if candidate is not None and candidate.exists():
                return candidate
        own = self._settings.cache / "uv"
        if not (own / "bin" / "uv").exists():
            packages.ensure([_VENV], self._settings, self._progress)
            log = self._settings.logs / "install-uv.log"
            run([sys.executable, "-m", "venv", "--clear", own], log=log)
            run([own / "bin" / "pip", "install", "--quiet", "uv"], log=log)
        return own / "bin" / "uv"


def _leave_out(folder: Path) -> None:
    for pattern in _LEFT_OUT:
        for path in [*folder.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def application_key() -> str:
    """Names one state of the project's own sources."""
    content = hashlib.sha256()
    for source in _SOURCES:
        path = REPOSITORY / source
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and file.suffix not in {".pyc", ".so"}:
                content.update(f"{file.relative_to(REPOSITORY)}\0".encode() + file.read_bytes() + b"\0")
    return content.hexdigest()[:16]


def _compile(folder: Path) -> None:
    # The images' file system is read-only where they run, so that Python could not keep what it compiles. Hashes
    # that nobody checks, because the files never change and their dates do.
    compiling = ["-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    output_of([sys.executable, *compiling, "-s", folder, "-p", _INSTALLED_AT, folder])


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        raise SetupError(f"{source} is missing, without which the project cannot be built")
    if source.is_dir():
        shutil.copytree(source, target, ignore=_NOT_SOURCES)
    else:
        shutil.copy2(source, target)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
