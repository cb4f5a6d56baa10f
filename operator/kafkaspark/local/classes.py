"""The class archive of this machine: made once, next to the first use of Spark. Later JVMs start in half the time."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from sparkapp.spark.launch import archive
from sparkapp.spark.launch.settings import CLASSES_VARIABLE

_ARCHIVE, _CLASS_PATH = "classes.jsa", "classpath"
_PROGRAM = "sparkapp.spark.launch.archive.class_archive"
_LIST = Path(archive.__file__).with_name("laptop.list")
"""Classes of a laptop's Spark alone; ``classes.list`` has those of every Spark."""
_STALE_SECONDS = 1800


def use_archive() -> bool:
    """Names the archive to the JVMs that this process starts; False if there is none yet.

    An archive that the environment names is used in its place, and with an empty name none is.
    """
    if CLASSES_VARIABLE in os.environ:
        return True
    folder = archive_folder()
    if not (folder / _CLASS_PATH).is_file():
        return False
    os.environ[CLASSES_VARIABLE] = str(folder)
    return True


def make_archive() -> Path | None:
    """Begins to make the archive, in a process that outlives this; its folder, or None if that is not needed.

    Called when Spark has nothing more to do: JVM and archive take a processor each.
    """
    folder = archive_folder()
    java = _java()
    if CLASSES_VARIABLE in os.environ or (folder / _CLASS_PATH).is_file() or java is None:
        return None
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not _claims(folder.with_suffix(".lock")):
            return None
        unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        # The folder has its name when it is complete. `nice` lets everything else go first.
        script = 'nice -n 19 "$0" -m "$1" "$2" "$5" && mv -T "$2" "$3"; rm -rf "$2" "$4"'
        names = [unfinished, folder, folder.with_suffix(".lock"), _LIST]
        subprocess.Popen(
            ["sh", "-c", script, sys.executable, _PROGRAM, *map(str, names)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PATH": f"{java.parent}{os.pathsep}{os.environ.get('PATH', '')}"},
        )  # fmt: skip
        return folder
    return None


def archive_folder() -> Path:
    """Where the archive is: it fits a Spark and a Java, whose paths, versions and files are in the name, and our list.

    A JVM ignores an archive of jars with another size or time, and says nothing. Another installation has other times.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    spark = find_spec("pyspark")
    java = _java()
    jars = Path(spark.origin).parent / "jars" if spark is not None and spark.origin else Path()
    files = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in sorted(jars.glob("*.jar"))]
    parts = [version("pyspark"), str(jars), str(files), str(java), str(java and java.stat().st_mtime_ns)]
    parts.append(_LIST.read_text(encoding="utf-8"))
    return cache / "kafkaspark" / f"classes-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"


def _java() -> Path | None:
    """The program that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    return found.resolve() if found.is_file() else None


def _claims(lock: Path) -> bool:
    """Whether no other process makes the archive. The lock of a process that was killed holds for half an hour."""
    with suppress(OSError):
        if time.time() - lock.stat().st_mtime > _STALE_SECONDS:
            lock.unlink()
    try:
        lock.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
