"""Creates the class archive of the image: the classes that a job's JVMs load, parsed and verified ahead of time.

The start of a driver or executor is mostly the JVM loading some fifteen thousand classes. The archive (JEP 310) halves
its CPU. The image's build runs ``class_archive.py FOLDER``, which writes ``FOLDER/classes.jsa`` and
``FOLDER/classpath``. The archive is valid for JVMs whose class path begins with that class path. Any other JVM ignores
it. The classes are those of ``classes.list``. A laptop also has those of ``laptop.list``: Parquet, and plans that are
interpreted.

Two archives of the same classes are equal bit by bit, where the builder may choose how the JVM is scheduled (ADR 48).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyspark

CLASSES = Path(__file__).with_name("classes.list")


def main(folder: Path, *more: Path) -> None:
    """Archives the classes.

    :param folder: of the archive and its class path.
    :param more: lists of further classes.
    :raises SystemExit: the JVM did not create an archive.
    """
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    classpath = ":".join(map(str, jars))
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "classes.jsa"
    _read_ahead(jars)
    classes = "".join(each.read_text(encoding="utf-8") for each in (CLASSES, *more))
    for _ in range(_ATTEMPTS):
        _dump(archive, classpath, classes)
        if _has_symbols_in_order(archive):
            break
    else:
        print(f"in {_ATTEMPTS} attempts the JVM's main thread had to wait: the archive is valid, but not reproducible")
    (folder / "classpath").write_text(classpath)
    archive.chmod(0o644)
    print(f"archive of {archive.stat().st_size / 1e6:.0f} MB")


def _dump(archive: Path, classpath: str, classes: str) -> None:
    with tempfile.TemporaryFile() as log, tempfile.NamedTemporaryFile("w", encoding="utf-8") as listed:
        listed.write(classes)
        listed.flush()
        dump = [*_DUMP, f"-XX:SharedClassListFile={listed.name}", f"-XX:SharedArchiveFile={archive}", "-cp", classpath]
        done = subprocess.run(
            ["java", *dump], stdout=log, stderr=subprocess.STDOUT, check=False, timeout=900, preexec_fn=_in_order
        )
        log.seek(0)
        if done.returncode != 0:
            sys.exit(log.read().decode(errors="replace")[-4000:])


def _has_symbols_in_order(archive: Path) -> bool:
    """Whether the main thread of the JVM created the symbols of its start, without a wait.

    While it waits, for instance for a page of a file, the thread of finalizers runs and creates the second symbol.
    """
    with archive.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        first, second = map(content.find, _SYMBOLS)
    return first <= second


def _read_ahead(jars: Sequence[Path]) -> None:
    """Puts the files into the page cache, because a thread that waits for a disk lets another thread run."""
    libraries = Path(shutil.which("java") or "java").resolve().parents[1] / "lib"
    for file in (CLASSES, libraries / "modules", *libraries.rglob("*.so"), *jars):
        file.read_bytes()


def _in_order() -> None:
    """Runs in the child before the JVM: the JVM's threads take turns, and addresses are those of every other run.

    The archive contains addresses, and symbols in the order in which threads create them. At the JVM's start two
    threads load classes at once. A container without the capability SYS_NICE, or whose seccomp profile refuses
    ``personality``, gives a valid archive that is not reproducible.
    """
    _LIBC.personality(_ADDR_NO_RANDOMIZE)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


_LIBC = ctypes.CDLL(None)
_ADDR_NO_RANDOMIZE = 0x0040000
"""``personality(2)``."""

_SYMBOLS = (b"Ljava/lang/VersionProps;", b"Ljdk/internal/misc/VM;")
"""In the order in which the main thread creates them. A JVM without one of them is not compared."""
_ATTEMPTS = 4
"""The first attempt has read every file that the next attempt waits for."""

_DUMP = (
    "-Xshare:dump",
    # A file in the folder for temporary files, which stays.
    "-XX:-UsePerfData",
    # The collector that archives strings. With a single CPU the JVM would choose another.
    "-XX:+UseG1GC", "-XX:ParallelGCThreads=1", "-XX:ConcGCThreads=1",
    # The header has the largest heap. Strings are written at its end, and the gaps between them are zero only where the
    # heap has not grown to that.
    "-Xms256m", "-Xmx2g",
)  # fmt: skip


if __name__ == "__main__":
    main(*(Path(each).resolve() for each in sys.argv[1:]))
