"""Query state of retained checkpoints: kept while Spark removes its files, and removed by the claim's owner alone."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, retained, retained_key
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointStoreUnavailable,
    CheckpointUnusable,
    QueryStateMissing,
    VolumeUnusable,
)
from sparkapp.spark.state.query_log import EngineState, decode_engine, encode_engine
from sparkapp.spark.state.retained_state import QueryState, RetainedState
from sparkapp.spark.state.state_store_files import folder_of_state
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore

METADATA = json.dumps({"batchWatermarkMs": 70, "conf": {"spark.sql.shuffle.partitions": "2"}})
STATE = EngineState(5, METADATA, base=9, watermark=80, previous_watermark=60, attempt=1)


def document(checkpoint_id: int = 12, *, attempt: int = 1, engine: EngineState = STATE) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid="uid", attempt=attempt, checkpoint_id=checkpoint_id, created_at="2026-11-21T09:00:00Z", parallelism=2,
        prefix="p", engine=encode_engine(engine), engine_has_state=True,
    )  # fmt: skip


def put(folder: Path, *versions: str) -> None:
    for partition in ("0/0", "0/1"):
        store = folder / "attempt-1" / "state" / partition
        store.mkdir(parents=True, exist_ok=True)
        for version in versions:
            (store / version).write_text(version)


@pytest.fixture
def store() -> MemoryStore:
    """The claim is that of attempt 1."""
    return MemoryStore(encode(document()))


@pytest.fixture
def entries() -> MemoryRetainedStore:
    """The retained checkpoints, and what snapshots pin."""
    return MemoryRetainedStore()


@pytest.fixture
def pins(entries: MemoryRetainedStore) -> set[int]:
    """The checkpoints whose state snapshots keep."""
    return entries.pins


@pytest.fixture
def state(tmp_path: Path, store: MemoryStore, entries: MemoryRetainedStore) -> RetainedState:
    put(tmp_path, "2.snapshot", "3.delta", "4.delta")
    return RetainedState(tmp_path, Claim(store, job_uid="uid", attempt=1), entries)


def entry(state: RetainedState, current: CheckpointDocument) -> RetainedCheckpoint:
    return retained(current, engine=state.keep(current))


def gone_back(folder: Path | None, target: RetainedCheckpoint, number: int) -> EngineState:
    current = replace(STATE, plan=31, base=9)
    text = encode_engine(current)
    return decode_engine(QueryState(folder).gone_back(text, target, number=number, attempt=2, recorded=text))


def test_a_job_goes_back_to_state_that_spark_has_removed(state: RetainedState, tmp_path: Path) -> None:
    target = entry(state, document())
    shutil.rmtree(tmp_path / "attempt-1")
    found = gone_back(tmp_path, target, 41)
    assert found == replace(STATE, plan=31, base=38, retained=12)
    files = [file.name for file in sorted((folder_of_state(tmp_path, found) / "state/0/1").iterdir())]
    assert files == ["2.snapshot", "3.delta"]


def test_a_checkpoint_without_state_keeps_nothing(state: RetainedState, tmp_path: Path) -> None:
    assert state.keep(replace(document(), engine_has_state=False)) == ""
    assert not (tmp_path / "retained").exists()


def test_state_that_spark_removes_meanwhile_is_not_kept(state: RetainedState, tmp_path: Path) -> None:
    (tmp_path / "attempt-1/state/0/1/3.delta").unlink()
    with pytest.raises(QueryStateMissing, match="removed while it was kept: 0/1 has versions 2 to 2"):
        state.keep(document())
    assert not (tmp_path / "retained/checkpoint-12").exists()
    put(tmp_path, "3.delta")
    assert state.keep(document()), "what is left of the first try does not disturb"


def test_a_volume_without_hard_links_keeps_none(
    state: RetainedState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(VolumeUnusable, match="Operation not permitted"):
        state.keep(document())
    assert not (tmp_path / "retained/checkpoint-12").exists()


def folders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in (folder / "retained").iterdir())


def test_state_of_dropped_checkpoints_is_removed(state: RetainedState, tmp_path: Path) -> None:
    for number in (11, 12, 13):
        state.keep(document(number))
    (tmp_path / "retained/.checkpoint-14").mkdir()
    (tmp_path / "retained/notes").mkdir()
    state.remove_others([12], document(13))
    assert folders(tmp_path) == ["checkpoint-12", "notes"]


def test_the_state_that_the_document_went_back_to_stays(state: RetainedState, tmp_path: Path) -> None:
    for number in (11, 12):
        state.keep(document(number))
    state.remove_others([], document(13, engine=replace(STATE, retained=11)))
    assert folders(tmp_path) == ["checkpoint-11"]


def test_the_state_of_a_snapshot_stays_until_the_snapshot_is_gone(
    state: RetainedState, tmp_path: Path, pins: set[int]
) -> None:
    for number in (11, 12):
        state.keep(document(number))
    pins.add(11)
    state.remove_others([], document(13))
    assert folders(tmp_path) == ["checkpoint-11"]
    pins.clear()
    state.remove_others([], document(13))
    assert folders(tmp_path) == []


@pytest.mark.parametrize("unknown", ["pinned", "read"])
def test_nothing_is_removed_while_pins_or_entries_are_unknown(
    unknown: str, state: RetainedState, entries: MemoryRetainedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        msg = "no answer"
        raise CheckpointStoreUnavailable(msg)

    state.keep(document(11))
    monkeypatch.setattr(entries, unknown, fail)
    with pytest.raises(CheckpointStoreUnavailable):
        state.remove_others([], document(12))
    assert folders(tmp_path) == ["checkpoint-11"]


def test_the_state_of_an_entry_that_the_retainer_does_not_know_stays(
    state: RetainedState, entries: MemoryRetainedStore, tmp_path: Path
) -> None:
    """The answer to the change that wrote the entry was lost."""
    target = entry(state, document(11))
    entries.change({retained_key(11): target.engine}, ())
    state.keep(document(12))
    state.remove_others([12], document(12))
    assert folders(tmp_path) == ["checkpoint-11", "checkpoint-12"]
    assert gone_back(tmp_path, target, 41).retained == 11
    entries.change({}, [retained_key(11)])
    state.remove_others([12], document(12))
    assert folders(tmp_path) == ["checkpoint-12"]


def test_a_checkpoint_that_is_retained_again_keeps_its_files(state: RetainedState, tmp_path: Path) -> None:
    """An orderly stop retains the last checkpoint, which may be pinned by then, and Spark has removed its files."""
    text = state.keep(document())
    shutil.rmtree(tmp_path / "attempt-1")
    assert state.keep(replace(document(), drained=True)) == text
    assert gone_back(tmp_path, retained(document(), engine=text), 41).retained == 12


def test_a_folder_that_cannot_be_read_is_not_replaced(
    state: RetainedState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may have removed the files that the folder was made of."""
    target = entry(state, document())
    shutil.rmtree(tmp_path / "attempt-1")
    real = Path.read_text

    def failing(path: Path, **keywords: str) -> str:
        if path.name == "engine.json":
            raise OSError(errno.EIO, "Input/output error")
        return real(path, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", failing)
        with pytest.raises(VolumeUnusable, match="checkpoint-12 cannot be read: Input/output error"):
            state.keep(replace(document(), drained=True))
        with pytest.raises(VolumeUnusable):
            gone_back(tmp_path, target, 41)
    assert gone_back(tmp_path, target, 41).retained == 12


def test_the_state_of_a_snapshot_is_not_replaced_by_another_of_that_number(
    state: RetainedState, tmp_path: Path, pins: set[int]
) -> None:
    """Somebody restored an old document by hand, and the job has reached the number again."""
    first = entry(state, document())
    again = document(engine=replace(STATE, plan=77))
    pins.add(12)
    with pytest.raises(CheckpointUnusable, match="a snapshot keeps another checkpoint 12"):
        state.keep(again)
    assert gone_back(tmp_path, first, 41).retained == 12
    pins.clear()
    second = entry(state, again)
    with pytest.raises(CheckpointUnusable, match="the state of another checkpoint of that number"):
        gone_back(tmp_path, first, 41)
    assert gone_back(tmp_path, second, 41).retained == 12


def test_an_attempt_that_was_replaced_removes_nothing(state: RetainedState, store: MemoryStore, tmp_path: Path) -> None:
    """Its successor goes back to checkpoint 11, which this attempt has not dropped in time."""
    state.keep(document(11))
    store.write(encode(document(12, attempt=2)), expected=store.read().version)
    with pytest.raises(CheckpointConflict):
        state.remove_others([], document(12))
    with pytest.raises(CheckpointConflict):
        state.keep(document(11, engine=replace(STATE, plan=6)))
    assert folders(tmp_path) == ["checkpoint-11"]


@pytest.mark.parametrize("lost", [False, True])
def test_an_attempt_that_was_replaced_meanwhile_retains_nothing(
    lost: bool, state: RetainedState, store: MemoryStore, tmp_path: Path
) -> None:
    """Its successor removes the folder that no entry names, and would be offered an entry without its state."""
    state.keep(document(11))
    store.write(encode(document(12, attempt=2)), expected=store.read().version)
    if lost:
        shutil.rmtree(tmp_path / "attempt-1")
    for number in (11, 12):
        with pytest.raises(CheckpointConflict):
            state.keep(document(number))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"engine": "{"}, "cannot be used: the engine text"),
        ({"engine": encode_engine(replace(STATE, base=12))}, "checkpoint 12 has no state"),
        ({"checkpoint_id": 41}, "checkpoint 41 has no state"),
        ({"engine": encode_engine(replace(STATE, retained=77))}, "is not in .*checkpoint-77/state: the folder has no"),
    ],
)
def test_what_names_no_state_is_refused(
    state: RetainedState, tmp_path: Path, change: dict[str, object], words: str
) -> None:
    target = replace(entry(state, document()), **change)  # type: ignore[arg-type]
    with pytest.raises(CheckpointUnusable, match=words):
        gone_back(tmp_path, target, 41)


def test_a_job_without_the_volume_does_not_go_back(state: RetainedState) -> None:
    with pytest.raises(CheckpointUnusable, match="a volume that the job does not have") as caught:
        gone_back(None, entry(state, document()), 41)
    assert "spec.checkpoint.stateVolume" in caught.value.remedy
