"""The class archive of a laptop: made once, beside the program, and named to later JVMs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkaspark.local import classes
from kafkaspark.local.classes import archive_folder, make_archive, use_archive

PROGRAM = """
import sys, pathlib
folder = pathlib.Path(sys.argv[1])
if {fails}:
    sys.exit(1)
(folder / "classes.jsa").write_text("classes")
(folder / "classpath").write_text("a.jar")
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a Java, without an archive."""
    java = tmp_path / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(classes, "_PROGRAM", "a_program")
    # What use_archive() sets is removed with the test.
    monkeypatch.setenv("KAFKASPARK_CLASSES", "")
    monkeypatch.delenv("KAFKASPARK_CLASSES")
    return tmp_path


def await_end(folder: Path) -> None:
    end = time.monotonic() + 60
    while folder.with_suffix(".lock").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert [path.name for path in folder.parent.iterdir()] in ([], [folder.name])


def test_the_archive_is_made_once_and_then_used(machine: Path) -> None:
    (machine / "a_program.py").write_text(PROGRAM.format(fails=False))
    assert not use_archive()
    folder = make_archive()
    assert folder == archive_folder()
    await_end(folder)
    assert (folder / "classes.jsa").read_text() == "classes"
    assert make_archive() is None
    assert use_archive()
    assert os.environ["KAFKASPARK_CLASSES"] == str(folder)


def test_jars_that_are_installed_again_have_an_archive_of_their_own(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: a JVM refused the archive silently, and each start took twice the processor time."""
    jar = machine / "pyspark/jars/a.jar"
    jar.parent.mkdir(parents=True)
    jar.write_text("classes")
    found = SimpleNamespace(origin=str(machine / "pyspark/__init__.py"))
    monkeypatch.setattr(classes, "find_spec", lambda _: found)
    folder = archive_folder()
    assert archive_folder() == folder
    os.utime(jar, ns=(1, 1))
    assert archive_folder() != folder


def test_an_archive_that_fails_leaves_nothing(machine: Path) -> None:
    (machine / "a_program.py").write_text(PROGRAM.format(fails=True))
    folder = make_archive()
    assert folder is not None
    await_end(folder)
    assert not folder.exists()
    assert not use_archive()


def test_two_processes_make_one_archive(machine: Path) -> None:
    (machine / "a_program.py").write_text("import time; time.sleep(2)" + PROGRAM.format(fails=False))
    folder = make_archive()
    assert folder is not None
    assert make_archive() is None
    await_end(folder)


def test_another_java_has_another_archive(machine: Path) -> None:
    first = archive_folder()
    os.utime(machine / "jdk/bin/java", (1, 1))
    assert archive_folder() != first


def test_an_empty_variable_switches_it_off(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKASPARK_CLASSES", "")
    assert make_archive() is None
    assert use_archive()
