"""The image's class archive: settings with which driver and executors start with half the CPU.

Most of a start is the JVM loading classes. ``images/sparkapp/class_archive.py`` has put them into an archive, which is
valid for a class path that begins as the one it was made with; any other JVM ignores it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "KAFKASPARK_CLASSES"
"""Names the archive's folder; the image sets it."""

_DRIVER_OPTIONS = "spark.driver.defaultJavaOptions"
_EXECUTOR_OPTIONS = "spark.executor.defaultJavaOptions"
_DRIVER_CLASS_PATH = "spark.driver.extraClassPath"


def with_class_archive(settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings, and those that make use of the archive where there is one; the user's options follow and win.

    Executors get the class path from the image's entrypoint. The driver's JVM plans and coordinates but moves no
    records: its quick compiler is enough, and takes half the CPU of a start again.
    """
    folder = Path((os.environ if environment is None else environment).get(VARIABLE, ""))
    class_path = folder / "classpath"
    if not folder.name or not class_path.exists():
        return dict(settings)
    archive = f"-XX:SharedArchiveFile={folder / 'classes.jsa'}"
    paths = [class_path.read_text(encoding="utf-8"), settings.get(_DRIVER_CLASS_PATH, "")]
    return {
        **settings,
        _DRIVER_OPTIONS: _joined(f"{archive} -XX:TieredStopAtLevel=1", settings.get(_DRIVER_OPTIONS)),
        _EXECUTOR_OPTIONS: _joined(archive, settings.get(_EXECUTOR_OPTIONS)),
        _DRIVER_CLASS_PATH: ":".join(filter(None, paths)),
    }


def _joined(ours: str, theirs: str | None) -> str:
    return f"{ours} {theirs}" if theirs else ours
