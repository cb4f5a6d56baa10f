"""The state of a deleted job: removed by the owner of the claim alone, but what snapshots keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CheckpointConflict, VolumeUnusable
from sparkapp.spark.state.removed_state import remove_state
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore

FILES = (
    "attempt-3/state/0/0/7.zip", "attempt-3/metadata", "retained/checkpoint-4/state/0/0/4.zip",
    "retained/checkpoint-6/state/0/0/6.zip", "retained/.checkpoint-7/state/0/0/7.zip",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's folder, next to that of another job."""
    for name in (*(f"uid/{file}" for file in FILES), "other/attempt-1/state/0/0/1.zip"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path / "uid"


@pytest.fixture
def store() -> MemoryStore:
    """The claim is that of attempt 4."""
    document = CheckpointDocument(
        job_uid="uid", attempt=4, checkpoint_id=7, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p"
    )
    return MemoryStore(encode(document))


@pytest.fixture
def retained() -> MemoryRetainedStore:
    return MemoryRetainedStore({"checkpoint-4.json": "4", "checkpoint-6.json": "6"})


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_the_folder_is_removed_and_that_of_another_job_stays(
    folder: Path, store: MemoryStore, retained: MemoryRetainedStore
) -> None:
    said = remove_state(folder, claim=Claim(store, job_uid="uid", attempt=4), retained=retained)
    assert said == "folder uid of the volume is removed"
    assert files(folder.parent) == ["other/attempt-1/state/0/0/1.zip"]
    assert retained.read() == {}
    again = remove_state(folder, claim=Claim(store, job_uid="uid", attempt=4), retained=retained)
    assert again == "the volume has no folder uid"


def test_what_a_snapshot_keeps_stays(folder: Path, store: MemoryStore, retained: MemoryRetainedStore) -> None:
    retained.pins.add(4)
    said = remove_state(folder, claim=Claim(store, job_uid="uid", attempt=4), retained=retained)
    assert said == "folder uid of the volume has only what snapshots keep: checkpoint-4"
    assert files(folder) == ["retained/checkpoint-4/state/0/0/4.zip"]
    assert not (folder / "attempt-3").exists()


def test_a_snapshot_that_is_made_meanwhile_keeps_its_state_or_finds_no_checkpoint(
    folder: Path, store: MemoryStore
) -> None:
    """The operator writes the pin before it looks for the entry; here it does so right behind the drop of entries."""

    class Pinned(MemoryRetainedStore):
        def pinned(self) -> set[int]:
            self.pins.add(6)
            assert self.read() == {}, "entries are dropped before pins are read"
            return self.pins

    retained = Pinned({"checkpoint-6.json": "6"})
    remove_state(folder, claim=Claim(store, job_uid="uid", attempt=4), retained=retained)
    assert files(folder) == ["retained/checkpoint-6/state/0/0/6.zip"]


def test_an_attempt_that_was_replaced_removes_nothing(
    folder: Path, store: MemoryStore, retained: MemoryRetainedStore
) -> None:
    before = files(folder)
    with pytest.raises(CheckpointConflict):
        remove_state(folder, claim=Claim(store, job_uid="uid", attempt=3), retained=retained)
    assert files(folder) == before


def test_a_volume_that_refuses_is_an_error_of_the_volume(
    folder: Path, store: MemoryStore, retained: MemoryRetainedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(VolumeUnusable, match="Operation not permitted"):
        remove_state(folder, claim=Claim(store, job_uid="uid", attempt=4), retained=retained)
