"""Compares the packages of this environment with those of the job image."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

IMAGE = {"pyspark": "4.3.0", "pyarrow": "23.0.1", "pandas": "2.3.3"}
"""What ``locks/sparkapp.txt`` installs. Code that works with other versions may fail in the image."""


def differences() -> Iterator[str]:
    """A text for each package that is missing or of another version."""
    for package, wanted in IMAGE.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "missing"
        if found != wanted:
            yield f"{package} is {found} here and {wanted} in the job image"


def remedy() -> str:
    """The command that installs the image's versions."""
    return "pip install " + " ".join(f"{package}=={wanted}" for package, wanted in IMAGE.items())
