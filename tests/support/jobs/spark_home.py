"""Spark as the images have it: without the zip files from which Python processes would compile pyspark each time."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def unzipped_spark_home() -> Path:
    """A folder for ``SPARK_HOME`` with the installed pyspark's jars and scripts alone."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    installed = Path(found.origin).parent
    home = Path(tempfile.gettempdir()) / f"kafkaspark-spark-home-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    for name in ("bin", "jars"):
        link = home / name
        if not link.is_symlink() or link.readlink() != installed / name:
            # Several test runs may be at it.
            new = home / f"{name}.{os.getpid()}"
            new.symlink_to(installed / name)
            new.replace(link)
    return home
