"""Creates the class archive of the image: the classes that a job's JVMs load, parsed and verified ahead of time.

The start of a driver or executor is mostly the JVM loading some fifteen thousand classes. The archive (JEP 310) halves
its CPU. The image's build runs ``class_archive.py FOLDER``, which writes ``FOLDER/classes.jsa`` and
``FOLDER/classpath``. The archive is valid for JVMs whose class path begins with that class path. Any other JVM ignores
it. The classes are those of ``classes.list``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

CLASSES = Path(__file__).with_name("classes.list")


def main(folder: Path) -> None:
    """Archives the classes.

    :param folder: of the archive and its class path.
    :raises SystemExit: the JVM did not create an archive.
    """
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    classpath = ":".join(map(str, jars))
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "classes.jsa"
    with tempfile.TemporaryFile() as log:
        dump = [*_DUMP, f"-XX:SharedClassListFile={CLASSES}", f"-XX:SharedArchiveFile={archive}", "-cp", classpath]
        done = subprocess.run(["java", *dump], stdout=log, stderr=subprocess.STDOUT, check=False, timeout=900)
        log.seek(0)
        if done.returncode != 0:
            sys.exit(log.read().decode(errors="replace")[-4000:])
    (folder / "classpath").write_text(classpath)
    archive.chmod(0o644)
    print(f"archive of {archive.stat().st_size / 1e6:.0f} MB")


_DUMP = ("-Xshare:dump",)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
