"""The user's modules on this machine: a folder of links, as a pod has the files of a ConfigMap.

There is a single folder for the process, because the workers of a Spark session know its path.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from kafkaspark.local.variables import variables_set
from sparkapp.model.errors import TransformError
from sparkapp.spark.launch.user_modules import VARIABLE

Files = Mapping[str, Path | str]
"""The files of a job's code: the path of each, or its text where a manifest has it inline."""


class UserCode:
    """The folder, whose content changes from job to job. Used by one thread at a time."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kafkaspark-code-")).resolve()
        self._imported: dict[str, object] = {}
        """The version of each file of the job before."""

    @contextmanager
    def importable(self, files: Files, *, fresh: bool) -> Iterator[None]:
        """Within the block the job's modules are imported from these files, also by Spark's workers.

        :param fresh: import them again, because the files may have changed.
        :raises TransformError: a file has the name of another module.
        """
        place(files, self.folder)
        importlib.invalidate_caches()
        for file, content in files.items():
            name = inspect.getmodulename(file)
            if name is not None:
                _check_name(name, self.folder / file)
                if fresh or not self._is_imported(name, file, content):
                    sys.modules.pop(name, None)
        self._imported = {file: _version(content) for file, content in files.items()}
        sys.path.insert(0, str(self.folder))
        try:
            # Other code of this process, such as a user's own tests, has no such folder.
            with variables_set({VARIABLE: str(self.folder)}):
                yield
        finally:
            sys.path.remove(str(self.folder))

    def _is_imported(self, name: str, file: str, content: Path | str) -> bool:
        """Whether the module of this name is that of the file: imported here, or by a test of the project."""
        known = getattr(sys.modules.get(name), "__file__", None)
        if not isinstance(known, str):
            return False
        if Path(known).parent == self.folder:
            return self._imported.get(file) == _version(content)
        return isinstance(content, Path) and Path(known).resolve() == content.resolve()


def place(files: Files, folder: Path) -> None:
    """Makes the files the content of a folder, as links where they are files."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for name, content in files.items():
        if isinstance(content, Path):
            (folder / name).symlink_to(content.resolve())
        else:
            (folder / name).write_text(content, encoding="utf-8")


def _version(content: Path | str) -> object:
    if isinstance(content, str):
        return content
    found = content.stat()
    return content.resolve(), found.st_mtime_ns, found.st_size


@cache
def user_code() -> UserCode:
    """The folder of this process."""
    return UserCode()


def _check_name(name: str, file: Path) -> None:
    """
    :raises TransformError: in a pod another module would be imported.
    """
    found = None
    if name not in sys.stdlib_module_names:
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):  # a module without a description
            return
        # A module of the same file is the project's own folder in the search path, as pytest adds it.
        if found is None or found.origin is None or not _is_installed(Path(found.origin)):
            return
    msg = f"Python or a package of this environment has a module of the same name as the user's {file.name}"
    remedy = f"rename {file.name}, for instance to my_{file.name}, and import my_{name}"
    raise TransformError(msg, remedy=remedy)


def _is_installed(origin: Path) -> bool:
    return "site-packages" in origin.parts or "dist-packages" in origin.parts
