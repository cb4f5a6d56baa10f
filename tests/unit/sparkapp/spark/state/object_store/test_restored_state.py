"""A job goes back to retained state in an object store, or begins with another job's: all of it or none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import recover
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointUnusable, StateStoreUnusable
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.state.object_store.query_folder import prepared
from sparkapp.spark.state.object_store.restored_state import StoredQueryState
from sparkapp.spark.state.object_store.retained_state import StoredRetainedState
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.query_log import EngineState, decode_engine, encode_engine
from tests.support.fakes.group_evidence import NoMarks
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.object_files import Died, ObjectFiles
from tests.support.fakes.transactions import FakeControl
from tests.support.jobs.plain_job import plain_spec
from tests.support.object_store.state_in_store import (
    METADATA,
    STORAGE,
    STORES,
    document,
    files,
    folder,
    put,
    put_attempt,
    store,
    tree,
)

__all__ = ["files", "folder", "store"]

FIRST = TopicPartition("in", 0)
OLD = replace(document(4), splits=(KafkaPartitionSplit(FIRST, 0, 60),))
"""Checkpoint 14 of the job ``uid``, with version 4 of its state."""
SCHEMA = "0/_stateSchema/default/1"


@pytest.fixture
def target(store: ObjectStore, folder: Path) -> RetainedCheckpoint:
    """The checkpoint as it is retained; Spark has removed its state from the attempt's folder."""
    state = put_attempt(folder)
    own = "s3a://bucket/team/state/uid/attempt-1/state"
    put(state, SCHEMA, stores=("",))
    metadata = {"stateStoreInfo": [{"stateSchemaFilePaths": [f"{own}/{SCHEMA}"]}]}
    put(state, "0/_metadata/v2/2", stores=("",), text="v2\n" + json.dumps(metadata))
    claim = Claim(MemoryStore(encode(OLD)), job_uid="uid", attempt=1)
    text = StoredRetainedState(store, 1, claim, MemoryRetainedStore()).keep(OLD)
    shutil.rmtree(folder / "attempt-1")
    return retained(OLD, engine=text)


def job(uid: str, number: int, target: RetainedCheckpoint, restore: Restore = Restore()) -> Job:  # noqa: B008
    return Job(
        namespace="n", name="job", uid=uid, generation=1, attempt=number,
        spec=plain_spec(state_s3=STORAGE, start_snapshot="before", restore=restore),
        snapshots={"before": encode_retained(target)},
    )  # fmt: skip


def attempt(store: ObjectStore, claimed: MemoryStore, job: Job, target: RetainedCheckpoint) -> CheckpointDocument:
    """An attempt up to the folder of its query, where Spark begins."""
    entries = MemoryRetainedStore({retained_key(target.checkpoint_id): encode_retained(target)})
    own = store.of_job(job.uid)
    found = recover(
        job, store=claimed, control=FakeControl(), now="2026-11-21T10:00:00Z", retained=entries,
        engine=StoredQueryState(own), clusters=ClusterIds("kafka-1", "kafka-1"), marks=NoMarks(),
    ).document  # fmt: skip
    prepared(job, own, found)
    return found


def state_of(folder: Path, uid: str, number: int) -> dict[str, bytes]:
    return tree(folder.parent / uid / f"attempt-{number}/state")


def begins_with_the_state(found: CheckpointDocument, state: dict[str, bytes], uid: str, *, number: int) -> None:
    """The document has the offsets of checkpoint 14, and its version of state is in the folder of the attempt."""
    engine = decode_engine(found.engine)
    assert (found.offsets, found.checkpoint_id - engine.base, found.engine_has_state) == ({FIRST: 60}, 4, True)
    assert (engine.attempt, engine.retained, engine.watermark, engine.metadata) == (number, None, 9, METADATA)
    assert {"0/0/3.zip", "0/1/4.changelog", "1/1/left-keyToNumValues/SSTs/3.zip-table.sst", SCHEMA} < state.keys()
    assert f"s3a://bucket/team/state/{uid}/attempt-{number}/state/{SCHEMA}" in state["0/_metadata/v2/2"].decode()


def test_a_new_job_begins_with_the_state_of_a_snapshot(
    store: ObjectStore, folder: Path, target: RetainedCheckpoint
) -> None:
    before, claimed = tree(folder), MemoryStore()
    found = attempt(store, claimed, job("new", 1, target), target)
    assert found.checkpoint_id == 15
    begins_with_the_state(found, state_of(folder, "new", 1), "new", number=1)
    assert tree(folder) == before
    shutil.rmtree(folder)
    found = attempt(store, claimed, job("new", 2, target), target)
    assert found.checkpoint_id == 15
    assert decode_engine(found.engine).attempt == 1, "until the first checkpoint of this attempt"
    assert "0/0/3.zip" in state_of(folder, "new", 2), "snapshot and job may be deleted"


def later(number: int = 20) -> MemoryStore:
    """The job went on to another checkpoint, in another folder."""
    engine = encode_engine(EngineState(9, METADATA, base=10, watermark=99, previous_watermark=70, attempt=1))
    current = replace(OLD, checkpoint_id=number, engine=engine, splits=(KafkaPartitionSplit(FIRST, 0, 90),))
    return MemoryStore(encode(current))


def test_a_job_goes_back_to_an_earlier_checkpoint(store: ObjectStore, folder: Path, target: RetainedCheckpoint) -> None:
    going = job("uid", 2, target, Restore(checkpoint=14, nonce=1))
    found = attempt(store, later(), going, target)
    assert found.checkpoint_id == 21
    begins_with_the_state(found, state_of(folder, "uid", 2), "uid", number=2)


def test_a_job_goes_back_to_its_current_checkpoint(store: ObjectStore, folder: Path) -> None:
    """A person accepts a document that was restored by hand. Its state is in the folder that it names."""
    put_attempt(folder)
    target = retained(OLD, engine=OLD.engine)
    going = job("uid", 2, target, Restore(checkpoint=14, nonce=1))
    found = attempt(store, MemoryStore(encode(OLD)), going, target)
    assert (found.checkpoint_id, decode_engine(found.engine).attempt) == (15, 1)
    assert "0/0/4.changelog" in state_of(folder, "uid", 2)


class Writes(MemoryStore):
    """A document whose writes count among the steps of an attempt."""

    def __init__(self, step: Callable[[], None], text: str | None = None) -> None:
        super().__init__(text)
        self._step = step

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        self._step()
        return super().write(text, expected=expected, deadline=deadline)


@pytest.mark.parametrize("uid", ["new", "uid"])
def test_a_start_that_is_killed_at_any_step_begins_there_or_resumes(
    uid: str, store: ObjectStore, files: ObjectFiles, folder: Path, target: RetainedCheckpoint
) -> None:
    """A clone, and a restore: killed before each request to the store, and before each write of the document."""
    restore = Restore(checkpoint=14, nonce=1) if uid == "uid" else Restore()
    begun = later().read().text if uid == "uid" else None
    for steps in range(200):
        shutil.rmtree(folder.parent / "new", ignore_errors=True)
        for left in folder.glob("attempt-*"):
            shutil.rmtree(left)
        claimed = Writes(files._count, begun)
        files.dies_after = steps
        try:
            attempt(store, claimed, job(uid, 2, target, restore), target)
        except Died:
            files.dies_after = None
            text = claimed.read().text
            named = text is not None and decode(text, job_uid=uid).offsets == {FIRST: 60}
            assert not named or "0/0/3.zip" in state_of(folder, uid, 2), "the document names whole state alone"
            found = attempt(store, claimed, job(uid, 3, target, restore), target)
            number = decode_engine(found.engine).attempt
            assert number == (2 if named else 3)
            begins_with_the_state(found, state_of(folder, uid, number or 0), uid, number=number or 0)
            assert state_of(folder, uid, 3).keys() == state_of(folder, uid, number or 0).keys()
            continue
        break
    files.dies_after = None
    assert steps > 20, "it died at many of them"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job_uid": "../uid"}, "names no job"),
        ({"job_uid": "gone"}, "of the job with UID gone cannot be used: it is not in s3a://.*/gone/retained/checkpoint"),
        ({"engine": "{"}, "the state of checkpoint 14 cannot be used"),
        ({"engine": OLD.engine}, "it names no retained state"),
        (
            {"engine": encode_engine(EngineState(6, METADATA, base=10, attempt=1, retained=14))},
            "the state of another checkpoint of that number",
        ),
    ],
)  # fmt: skip
def test_what_names_no_state_is_refused_before_anything_is_written(
    change: dict[str, str], words: str, store: ObjectStore, folder: Path, target: RetainedCheckpoint
) -> None:
    claimed, wrong = MemoryStore(), replace(target, **change)  # type: ignore[arg-type]
    with pytest.raises(CheckpointUnusable, match=words):
        attempt(store, claimed, job("new", 1, wrong), wrong)
    assert decode(claimed.read().text or "", job_uid="new").checkpoint_id == 0, "the claim alone"
    assert [each.name for each in folder.parent.iterdir()] == ["uid"]


def test_state_that_is_not_whole_is_refused(store: ObjectStore, folder: Path, target: RetainedCheckpoint) -> None:
    next(folder.glob("retained/tables/attempt-1/0/1/SSTs/*")).unlink()
    with pytest.raises(CheckpointUnusable, match=r"of checkpoint 14 .*/SSTs/3\.zip-table\.sst is gone"):
        attempt(store, later(), job("uid", 2, target, Restore(checkpoint=14, nonce=1)), target)
    with pytest.raises(CheckpointUnusable) as caught:
        attempt(store, MemoryStore(), job("new", 1, target), target)
    assert "copy its folder uid/retained to the same place below s3://bucket/team/state" in caught.value.remedy


@pytest.mark.parametrize("lost", ["source", "copy"])
def test_a_copy_that_is_not_whole_refuses_no_checkpoint(
    store: ObjectStore, folder: Path, target: RetainedCheckpoint, *,
    lost: str, files: ObjectFiles, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What is retained was whole just before. The next attempt looks again."""
    copy = files.copy_file

    def failing(source: str, copied: str) -> None:
        gone = folder / f"retained/checkpoint-14/attempt-1/state/{STORES[1]}/4.changelog"
        if lost == "source":
            gone.unlink(missing_ok=True)
        copy(source, copied)
        if lost == "copy":
            (folder.parent / f"new/attempt-1/state/{STORES[1]}/4.changelog").unlink(missing_ok=True)

    monkeypatch.setattr(files, "copy_file", failing)
    with pytest.raises(StateStoreUnusable):
        attempt(store, MemoryStore(), job("new", 1, target), target)


def test_a_job_that_went_to_another_place_does_not_go_back(store: ObjectStore, target: RetainedCheckpoint) -> None:
    other = replace(STORAGE, bucket="elsewhere")
    engine = StoredQueryState(ObjectStore(other, other.folder("uid"), store._files))
    with pytest.raises(CheckpointUnusable, match=r"s3a://elsewhere/.*: the folder has no query state"):
        engine.gone_back(OLD.engine, target, number=21, attempt=2, recorded=OLD.engine)


@pytest.mark.parametrize("whose", ["uid", "elder"])
def test_a_stateless_start_that_fails_in_its_copy_keeps_what_the_document_names(
    store: ObjectStore, files: ObjectFiles, folder: Path, target: RetainedCheckpoint, *,
    monkeypatch: pytest.MonkeyPatch, whose: str,
) -> None:  # fmt: skip
    """The next attempt may resume at the document: the operator goes back to the revision of before."""
    put_attempt(folder)
    before, claimed = tree(folder / "attempt-1"), later()
    if whose != "uid":
        shutil.copytree(folder / "retained", folder.parent / whose / "retained")
    going = replace(job("uid", 2, replace(target, job_uid=whose)), stateless=7)

    def failing(source: str, copied: str) -> None:
        raise OSError(f"slow down: {source}, {copied}")

    monkeypatch.setattr(files, "copy_file", failing)
    with pytest.raises(StateStoreUnusable):
        attempt(store, claimed, going, target)
    assert decode_engine(decode(claimed.read().text or "", job_uid="uid").engine).attempt == 1
    assert tree(folder / "attempt-1") == before
