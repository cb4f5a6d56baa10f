"""Retained checkpoints in an object store: kept while Spark removes objects, removed by the claim's owner alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained_key
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointStoreUnavailable,
    QueryStateMissing,
    StateStoreUnusable,
)
from sparkapp.spark.state.object_store.removed_state import remove_stored_state
from sparkapp.spark.state.object_store.retained_folder import RetainedFolder, find
from sparkapp.spark.state.object_store.retained_state import StoredRetainedState
from sparkapp.spark.state.object_store.store import ObjectStore
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.object_files import Died, ObjectFiles
from tests.support.object_store.state_in_store import STORES, document, files, folder, put, put_attempt, store, tree

__all__ = ["files", "folder", "store"]

VERSION_4 = {
    *(f"{each}/{name}" for each in STORES for name in ("3.changelog", "3.zip", "4.changelog", "SSTs/3.zip-table.sst")),
    *(f"{each}/_metadata/schema" for each in STORES),
    "0/_metadata/metadata",
}
"""What version 4 needs of :func:`put_attempt`; it is that of checkpoint 14."""


@pytest.fixture
def claimed() -> MemoryStore:
    """The claim is that of attempt 1."""
    return MemoryStore(encode(document(4)))


@pytest.fixture
def entries() -> MemoryRetainedStore:
    return MemoryRetainedStore()


@pytest.fixture
def state(store: ObjectStore, claimed: MemoryStore, entries: MemoryRetainedStore, folder: Path) -> StoredRetainedState:
    put_attempt(folder)
    return of_attempt(1, store, claimed, entries)


def of_attempt(
    number: int, store: ObjectStore, claimed: MemoryStore, entries: MemoryRetainedStore
) -> StoredRetainedState:
    return StoredRetainedState(store, number, Claim(claimed, job_uid="uid", attempt=number), entries)


def take_claim(claimed: MemoryStore, attempt: int) -> None:
    claimed.write(encode(replace(document(4), attempt=attempt)), expected=claimed.read().version)


def retain(state: StoredRetainedState, current: CheckpointDocument) -> str:
    """As the retainer does; returns the engine's text of the entry."""
    text = state.keep(current)
    state.entries.change({retained_key(current.checkpoint_id): text}, ())
    return text


def kept(store: ObjectStore, checkpoint_id: int, text: str) -> set[str]:
    return set(find(store, checkpoint_id, text).objects)


def test_the_version_stays_when_spark_has_removed_it(
    state: StoredRetainedState, store: ObjectStore, folder: Path
) -> None:
    text = retain(state, document(4))
    shutil.rmtree(folder / "attempt-1")
    found = find(store, 14, text)
    assert set(found.objects) == VERSION_4
    assert (found.root / "0" / "0" / "3.changelog").read_bytes() == b"x"


def test_a_table_is_copied_once_for_all_checkpoints_that_have_it(
    state: StoredRetainedState, store: ObjectStore, files: ObjectFiles, folder: Path
) -> None:
    """Changes and snapshots are small; tables have the state. A newer snapshot needs a table of its own."""
    first = retain(state, document(4))
    copied = [name for name in files.copied if name.endswith(".sst")]
    assert len(copied) == len(STORES)
    put(folder / "attempt-1/state", "6.changelog")
    retain(state, document(4))
    assert [name for name in files.copied if name.endswith(".sst")] == copied, "the same snapshot, the same tables"
    second = retain(state, document(6))
    assert kept(store, 14, first) == VERSION_4
    assert {name for name in kept(store, 16, second) if name.endswith(".sst")} == {
        f"{each}/SSTs/5.zip-table.sst" for each in STORES
    }
    state.entries.change({}, [retained_key(14)])
    state.remove_others([16], document(6))
    assert not any("3.zip" in name or "checkpoint-14" in name for name in tree(folder / "retained"))
    assert len(kept(store, 16, second)) > len(STORES)


def test_a_checkpoint_without_state_keeps_nothing(state: StoredRetainedState, folder: Path) -> None:
    assert state.keep(document(0)) == ""
    assert not (folder / "retained").exists()


def test_state_that_spark_removes_meanwhile_is_not_kept(state: StoredRetainedState, folder: Path) -> None:
    lost = folder / "attempt-1/state/0/1/4.changelog"
    lost.unlink()
    with pytest.raises(QueryStateMissing, match="checkpoint 14 was removed while it was kept: 0/1 has versions"):
        state.keep(document(4))
    lost.write_text("x")
    assert state.keep(document(4)), "what is left of the first try does not disturb"


def test_a_snapshot_that_spark_writes_again_is_kept_with_its_own_tables(
    state: StoredRetainedState, store: ObjectStore, folder: Path
) -> None:
    """Two executors may both write the snapshot of a version, with tables of other names."""
    first = retain(state, document(4))
    for each in STORES:
        (folder / "attempt-1/state" / each / "SSTs/3.zip-table.sst").unlink()
    put(folder / "attempt-1/state", "3.zip", tables="again")
    put(folder / "attempt-1/state", "5.changelog")
    (folder / "attempt-1/state/0/0/5.zip").unlink()
    second = retain(state, document(5))
    assert kept(store, 14, first) == VERSION_4
    assert "0/0/SSTs/3.zip-again.sst" in kept(store, 15, second)


def test_a_driver_that_dies_at_any_request_leaves_whole_checkpoints_alone(
    state: StoredRetainedState, files: ObjectFiles, folder: Path, claimed: MemoryStore, entries: MemoryRetainedStore
) -> None:
    """While it keeps a checkpoint, and while it removes another. Each attempt gets one request further."""
    store, first, attempt = state.store, retain(state, document(4)), 1
    for requests in range(300):
        attempt += 1
        take_claim(claimed, attempt)
        later = of_attempt(attempt, store, claimed, entries)
        files.dies_after = requests
        try:
            retain(later, document(5))
            entries.change({}, [retained_key(14)])
            later.remove_others([15], document(5))
        except Died:
            files.dies_after = None
            if retained_key(14) in entries.texts:
                assert kept(store, 14, first) == VERSION_4
            if retained_key(15) in entries.texts:
                assert "0/0/5.zip" in kept(store, 15, entries.texts[retained_key(15)])
            continue
        break
    files.dies_after = None
    assert requests > 25, "it died at many of them"
    left = {name.partition("/")[0] for name in tree(folder / "retained")}
    assert left == {"checkpoint-15", "tables"}


def test_an_orderly_stop_retains_the_last_checkpoint_again_without_a_copy(
    state: StoredRetainedState, files: ObjectFiles, folder: Path, claimed: MemoryStore, entries: MemoryRetainedStore
) -> None:
    store, text = state.store, retain(state, document(4))
    take_claim(claimed, 2)
    files.copied.clear()
    assert retain(of_attempt(2, store, claimed, entries), document(4)) == text
    assert files.copied == []
    entries.change({}, [retained_key(14)])
    assert of_attempt(2, store, claimed, entries).keep(document(4)) == text
    assert files.copied, "an earlier attempt may still remove what has no entry"
    assert (folder / "retained/checkpoint-14/attempt-2/manifest.json").exists()


def test_what_snapshots_and_entries_name_stays(
    state: StoredRetainedState, store: ObjectStore, folder: Path, entries: MemoryRetainedStore
) -> None:
    put(folder / "attempt-1/state", "6.changelog")
    texts = {number: retain(state, document(number - 10)) for number in (14, 15, 16)}
    entries.pins.add(14)
    entries.change({}, [retained_key(14)])
    state.remove_others([16], document(6))
    assert all(kept(store, number, text) for number, text in texts.items()), "the store has the entry of 15"
    entries.pins.clear()
    entries.change({}, [retained_key(15)])
    state.remove_others([16], document(6))
    assert {name.partition("/")[0] for name in tree(folder / "retained")} == {"checkpoint-16", "tables"}


def test_nothing_is_removed_while_the_pins_are_unknown(
    state: StoredRetainedState, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> set[int]:
        msg = "no answer"
        raise CheckpointStoreUnavailable(msg)

    retain(state, document(4))
    before = tree(folder)
    monkeypatch.setattr(state.entries, "pinned", unknown)
    state.entries.change({}, [retained_key(14)])
    with pytest.raises(CheckpointStoreUnavailable):
        state.remove_others([], document(5))
    assert tree(folder) == before


def test_an_attempt_that_was_replaced_keeps_and_removes_nothing(
    state: StoredRetainedState, folder: Path, claimed: MemoryStore
) -> None:
    retain(state, document(4))
    take_claim(claimed, 2)
    state.entries.change({}, [retained_key(14)])
    before = tree(folder)
    with pytest.raises(CheckpointConflict):
        state.remove_others([], document(4))
    assert tree(folder) == before
    with pytest.raises(CheckpointConflict):
        state.keep(document(5))
    (folder / "attempt-1/state/0/0/4.changelog").unlink()
    with pytest.raises(CheckpointConflict):
        state.keep(document(4)), "the successor has removed the folder of this attempt"


class _FrozenBehind(Claim):
    """The attempt stands still behind the answer, and something happens."""

    def __init__(self, claimed: MemoryStore, meanwhile: Callable[[], None]) -> None:
        super().__init__(claimed, job_uid="uid", attempt=1)
        self._meanwhile = meanwhile

    def require(self) -> None:
        super().require()
        self._meanwhile()


def test_an_attempt_that_was_frozen_behind_its_claim_removes_nothing_newer(
    state: StoredRetainedState, store: ObjectStore, folder: Path, claimed: MemoryStore, entries: MemoryRetainedStore
) -> None:
    retain(state, document(4))
    entries.change({}, [retained_key(14)])
    found: list[str] = []

    def successor() -> None:
        take_claim(claimed, 2)
        found.append(retain(of_attempt(2, store, claimed, entries), document(4)))

    state.claim = _FrozenBehind(claimed, successor)
    state.remove_others([], document(4))
    assert kept(store, 14, found[0]) == VERSION_4
    assert tree(folder / "retained/tables/attempt-2")


def test_a_table_that_could_not_be_removed_is_copied_again(
    state: StoredRetainedState, store: ObjectStore, files: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    retain(state, document(4))
    state.entries.change({}, [retained_key(14)])
    delete = files.delete_file

    def failing(path: str) -> None:
        delete(path)
        if STORES[1] in path:
            msg = "AWS Error SLOW_DOWN"
            raise OSError(msg)

    monkeypatch.setattr(files, "delete_file", failing)
    with pytest.raises(StateStoreUnusable):
        state.remove_others([], document(4))
    assert kept(store, 14, retain(state, document(4))) == VERSION_4


def test_a_manifest_that_cannot_be_read_removes_nothing(
    state: StoredRetainedState, store: ObjectStore, folder: Path, claimed: MemoryStore, entries: MemoryRetainedStore
) -> None:
    retain(state, document(4))
    store.write(RetainedFolder(14, 1).manifest, b'{"engine": "')
    put(folder / "retained/checkpoint-11/attempt-1/state", "1.changelog")
    before = tree(folder)
    take_claim(claimed, 2)
    with pytest.raises(StateStoreUnusable, match=r"checkpoint-14/attempt-1/manifest\.json cannot be read"):
        of_attempt(2, store, claimed, entries).remove_others([14], document(4))
    assert tree(folder) == before


def test_a_deleted_job_leaves_only_what_snapshots_keep(
    state: StoredRetainedState, store: ObjectStore, folder: Path, claimed: MemoryStore, entries: MemoryRetainedStore
) -> None:
    texts = {number: retain(state, document(number - 10)) for number in (13, 14)}
    entries.pins.add(14)
    with pytest.raises(CheckpointConflict):
        remove_stored_state(store, attempt=2, claim=Claim(claimed, job_uid="uid", attempt=2), retained=entries)
    assert kept(store, 13, texts[13])
    take_claim(claimed, 2)
    claim = Claim(claimed, job_uid="uid", attempt=2)
    said = remove_stored_state(store, attempt=2, claim=claim, retained=entries)
    assert said == "s3://bucket/team/state/uid has only what snapshots keep: checkpoint-14"
    assert kept(store, 14, texts[14]) == VERSION_4
    assert sorted(each.name for each in folder.iterdir()) == ["retained"]
    assert entries.texts == {}
    assert {name.partition("/")[0] for name in tree(folder / "retained")} == {"checkpoint-14", "tables"}
    entries.pins.clear()
    assert remove_stored_state(store, attempt=2, claim=claim, retained=entries).endswith("uid is removed")
    assert not folder.exists()
