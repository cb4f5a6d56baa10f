"""Settings that make JVMs start from the image's class archive, without taking anything from the user."""

from __future__ import annotations

from pathlib import Path

from sparkapp.spark.launch.settings import with_class_archive

USERS = {"spark.driver.extraClassPath": "/mine.jar", "spark.executor.defaultJavaOptions": "-Dx=1"}


def test_without_an_archive_nothing_changes(tmp_path: Path) -> None:
    assert with_class_archive(USERS, {}) == USERS
    assert with_class_archive(USERS, {"KAFKASPARK_CLASSES": str(tmp_path)}) == USERS


def test_class_path_begins_with_that_of_the_archive_and_the_users_options_come_last(tmp_path: Path) -> None:
    (tmp_path / "classpath").write_text("/a.jar:/b.jar")
    archive = f"-XX:SharedArchiveFile={tmp_path}/classes.jsa"
    assert with_class_archive(USERS, {"KAFKASPARK_CLASSES": str(tmp_path)}) == {
        "spark.driver.extraClassPath": "/a.jar:/b.jar:/mine.jar",
        "spark.driver.defaultJavaOptions": f"{archive} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m",
        "spark.executor.defaultJavaOptions": f"{archive} -Dx=1",
    }
