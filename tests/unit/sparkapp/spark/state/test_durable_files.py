"""Files of state that are forced to the disk, as the system calls show it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkapp.model.errors import VolumeUnusable
from sparkapp.spark.state.durable_files import DurableFiles

Forced = Callable[[], set[str]]


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forced:
    """``forced() -> names`` of files and folders that were forced since the last call."""
    real, seen = os.fsync, []

    def fsync(number: int) -> None:
        seen.append(Path(os.readlink(f"/proc/self/fd/{number}")))
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)

    def take() -> set[str]:
        found = {str(path.relative_to(tmp_path)) for path in seen}
        seen.clear()
        return found

    return take


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    folder = tmp_path / "attempt-1" / "state" / "0" / "0"
    folder.mkdir(parents=True)
    return folder


def test_what_is_new_is_forced_with_the_folders_that_name_it(partition: Path, tmp_path: Path, forced: Forced) -> None:
    files = DurableFiles(tmp_path / "attempt-1")
    (partition / "1.changelog").write_text("1")
    files.force()
    above = {".", "attempt-1", "attempt-1/state", "attempt-1/state/0", "attempt-1/state/0/0"}
    assert forced() == {*above, "attempt-1/state/0/0/1.changelog"}
    files.force()
    assert forced() == set(), "nothing is new"
    (partition / "2.changelog").write_text("2")
    (partition / "1.changelog").unlink()
    files.force()
    assert forced() == {"attempt-1/state/0/0", "attempt-1/state/0/0/2.changelog"}


def test_a_file_that_replaces_another_is_forced(partition: Path, tmp_path: Path, forced: Forced) -> None:
    files = DurableFiles(tmp_path / "attempt-1")
    (partition / "1.changelog").write_text("1")
    files.force()
    forced()
    (partition / "other").write_text("again")
    (partition / "other").replace(partition / "1.changelog")
    files.force()
    assert "attempt-1/state/0/0/1.changelog" in forced()


def test_a_file_that_is_being_written_is_left_out(partition: Path, tmp_path: Path, forced: Forced) -> None:
    (partition / ".2.changelog.5f.tmp").write_text("half")
    DurableFiles(tmp_path / "attempt-1").force()
    assert not any(name.endswith(".tmp") for name in forced())


def test_a_file_that_spark_removes_meanwhile_is_no_error(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition / "1.changelog").write_text("1")
    real = os.open

    def removed(path: str, flags: int) -> int:
        (partition / "1.changelog").unlink(missing_ok=True)
        return real(path, flags)

    monkeypatch.setattr(os, "open", removed)
    DurableFiles(tmp_path / "attempt-1").force()


@pytest.mark.parametrize(("number", "refused"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_the_answer_of_a_file_system_for_a_folder(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, refused: bool
) -> None:
    assert partition.is_dir()

    def fsync(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    files = DurableFiles(tmp_path / "attempt-1")
    if refused:
        with pytest.raises(VolumeUnusable, match="state cannot be written"):
            files.force()
    else:
        files.force()


def test_a_disk_that_does_not_take_a_file_is_an_error_each_time(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition / "1.changelog").write_text("1")
    files = DurableFiles(tmp_path / "attempt-1")

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "a broken disk")

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with pytest.raises(VolumeUnusable):
            files.force()
