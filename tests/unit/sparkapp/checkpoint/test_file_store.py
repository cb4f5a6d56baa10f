"""The store of a job without Kubernetes is a compare-and-swap, also where two processes write at the same time."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from sparkapp.checkpoint import volume
from sparkapp.checkpoint.store import FileStore, Stored
from sparkapp.checkpoint.volume import only_writer
from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import CheckpointConflict, CheckpointStoreUnavailable


def test_of_two_writes_of_a_version_the_second_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other driver writes while the disk has the first one's text."""
    path, fsync = tmp_path / "state", os.fsync
    written: list[str] = []

    def other_first(number: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        other = threading.Thread(target=lambda: written.append(FileStore(path).write("other", expected="0")))
        other.start()
        other.join()
        fsync(number)

    monkeypatch.setattr(os, "fsync", other_first)
    with pytest.raises(CheckpointConflict, match="version 1, expected 0"):
        FileStore(path).write("own", expected="0")
    assert FileStore(path).read().text == "other"
    assert written == ["1"]


def test_the_disk_has_the_new_name_when_a_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka commits behind the write. A rename that a loss of power undoes would leave the document before it."""
    path, fsync = tmp_path / "state", os.fsync
    forced: list[tuple[str, bool]] = []

    def seen(number: int) -> None:
        forced.append((os.readlink(f"/proc/self/fd/{number}"), path.exists()))
        fsync(number)

    monkeypatch.setattr(os, "fsync", seen)
    FileStore(path).write("text", expected="0")
    assert forced[-1] == (str(tmp_path), True)


def test_a_write_that_took_effect_is_not_reported_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver would abort what its new document makes final."""
    store = FileStore(tmp_path / "state")
    store.write("old", expected="0")

    def broken(path: str) -> None:
        raise OSError(errno.EIO, path)

    monkeypatch.setattr(volume, "force_folder", broken)
    with pytest.raises(CheckpointStoreUnavailable):
        store.write("new", expected="1")
    assert store.read() == Stored("new", "2")


def test_threads_that_count_together_lose_no_step(tmp_path: Path) -> None:
    path, steps = tmp_path / "state", 25
    FileStore(path).write("0", expected="0")

    def count() -> None:
        done = 0
        while done < steps:
            found = FileStore(path).read()
            try:
                FileStore(path).write(str(int(found.text or "") + 1), expected=found.version)
            except CheckpointConflict:
                continue
            done += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert FileStore(path).read().text == str(4 * steps)


def test_a_process_that_stands_still_inside_a_write_is_named_with_a_command(tmp_path: Path) -> None:
    path = tmp_path / "state"
    FileStore(path).write("one", expected="0")
    lock = tmp_path / ".state.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CheckpointStoreUnavailable, match="stands still") as caught:
            FileStore(path).write("two", expected="1", deadline=Deadline.after(0.1))
    assert caught.value.remedy.endswith(f"fuser --kill {lock}")
    assert FileStore(path).read().text == "one"
    assert FileStore(path).write("two", expected="1") == "2", "the lock of a process that ended is gone"
    assert sorted(each.name for each in tmp_path.iterdir()) == [".state.lock", "state"]


def test_a_child_that_was_forked_inside_a_write_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with only_writer(path, Deadline.after(5)):
        inherited = [os.dup(int(each.name)) for each in Path("/proc/self/fd").iterdir() if _is(each, ".state.lock")]
    try:
        assert inherited
        assert FileStore(path).write("one", expected="0", deadline=Deadline.after(0.1)) == "1"
    finally:
        for number in inherited:
            os.close(number)


def _is(descriptor: Path, name: str) -> bool:
    try:
        return Path(os.readlink(descriptor)).name == name
    except OSError:
        return False
