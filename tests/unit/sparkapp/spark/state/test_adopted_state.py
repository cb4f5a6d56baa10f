"""A job begins with another job's state: all of it or none, and the other job's folder is only read."""

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
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, retained
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointUnusable, VolumeUnusable
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.state import state_store_files
from sparkapp.spark.state.durable_files import DurableFiles
from sparkapp.spark.state.query_log import EngineState, decode_engine, encode_engine
from sparkapp.spark.state.retained_state import QueryState, RetainedState
from tests.support.fakes.group_evidence import NoMarks
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeControl
from tests.support.jobs.plain_job import plain_spec

METADATA = json.dumps({"batchWatermarkMs": 70, "conf": {"spark.sql.shuffle.partitions": "2"}})
FIRST = TopicPartition("in", 0)
OLD = CheckpointDocument(
    job_uid="old-uid", attempt=4, checkpoint_id=12, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
    splits=(KafkaPartitionSplit(FIRST, 0, 60),), engine_has_state=True,
    engine=encode_engine(EngineState(5, METADATA, base=9, watermark=80, previous_watermark=60, attempt=4)),
)  # fmt: skip
"""Of the job that wrote the snapshot, with version 3 of its state."""


class Killed(BaseException):
    """A SIGKILL at this moment."""


@pytest.fixture
def target(tmp_path: Path) -> RetainedCheckpoint:
    """A checkpoint of the old job, whose state is retained on the volume."""
    folder = tmp_path / "old-uid"
    for partition in ("0/0", "0/1"):
        store = folder / "attempt-4/state" / partition
        store.mkdir(parents=True)
        for version in ("2.snapshot", "3.delta", "4.delta"):
            (store / version).write_text(f"{partition} {version}")
    claim = Claim(MemoryStore(encode(OLD)), job_uid="old-uid", attempt=4)
    kept = RetainedState(folder, claim, MemoryRetainedStore())
    return retained(OLD, engine=kept.keep(OLD))


def tree(folder: Path) -> dict[str, str]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): file.read_text() for file in files}


def attempt(
    volume: Path,
    store: MemoryStore,
    target: RetainedCheckpoint,
    number: int = 1,
    *,
    nonce: int = 0,
    stateless: int = 0,
) -> CheckpointDocument:
    """An attempt up to the folder of its query, where Spark begins."""
    uid = "new-uid"
    spec = plain_spec(start_snapshot="before", restore=Restore(snapshot="before" if nonce else "", nonce=nonce))
    job = Job(
        namespace="n", name="job", uid=uid, generation=1, attempt=number, spec=spec,
        snapshots={"before": encode_retained(target)}, stateless=stateless,
    )  # fmt: skip
    document = recover(
        job, store=store, control=FakeControl(), now="2026-11-21T10:00:00Z", retained=MemoryRetainedStore(),
        engine=QueryState(volume / uid), clusters=ClusterIds("kafka-1", "kafka-1"), marks=NoMarks(),
    ).document  # fmt: skip
    state_store_files.query_folder(job, volume / uid, document, stateful_allowed=True)
    return document


def stored(store: MemoryStore) -> CheckpointDocument:
    return decode(store.read().text or "", job_uid="new-uid")


WHOLE = {
    f"{partition}/{version}": f"{partition} {version}"
    for partition in ("0/0", "0/1")
    for version in ("2.snapshot", "3.delta")
}


def test_a_new_job_begins_with_the_state_of_a_snapshot(tmp_path: Path, target: RetainedCheckpoint) -> None:
    before = tree(tmp_path / "old-uid")
    document = attempt(tmp_path, MemoryStore(), target)
    engine = decode_engine(document.engine)
    assert (document.checkpoint_id, document.offsets, document.engine_has_state) == (13, {FIRST: 60}, True)
    assert document.checkpoint_id - engine.base == 3, "the version of state follows from the number"
    assert (engine.attempt, engine.retained, engine.watermark, engine.metadata) == (1, None, 80, METADATA)
    assert tree(tmp_path / "new-uid/attempt-1/state") == WHOLE
    assert tree(tmp_path / "old-uid") == before
    shutil.rmtree(tmp_path / "old-uid")
    assert tree(tmp_path / "new-uid/attempt-1/state") == WHOLE, "snapshot and job may be deleted"


def test_a_later_attempt_resumes_without_the_snapshot(tmp_path: Path, target: RetainedCheckpoint) -> None:
    store = MemoryStore()
    attempt(tmp_path, store, target)
    shutil.rmtree(tmp_path / "old-uid")
    assert attempt(tmp_path, store, target, 2).checkpoint_id == 13
    assert tree(tmp_path / "new-uid/attempt-2/state") == WHOLE


def test_a_volume_without_hard_links_gets_copies(
    tmp_path: Path, target: RetainedCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    attempt(tmp_path, MemoryStore(), target)
    assert tree(tmp_path / "new-uid/attempt-1/state") == WHOLE


class Steps:
    """Kills the attempt before its step of a number: a file, the disk, or a write of the document."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        for owner, name in ((Path, "hardlink_to"), (DurableFiles, "force"), (MemoryStore, "write"), (Path, "mkdir")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **keywords: object) -> object:
            self.left -= 1
            if self.left == 0:
                raise Killed
            return call(*arguments, **keywords)

        return counted


@pytest.mark.parametrize("step", range(1, 25))
def test_a_start_that_is_killed_at_any_step_begins_there_or_resumes(
    step: int, tmp_path: Path, target: RetainedCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, steps = MemoryStore(), Steps(monkeypatch)
    steps.left = step
    try:
        attempt(tmp_path, store, target)
    except Killed:
        named = store.read().text is not None and stored(store).checkpoint_id == 13
        assert not named or tree(tmp_path / "new-uid/attempt-1/state") == WHOLE, "the document names whole state alone"
    else:
        assert step > 15, "every step was tried"
    steps.left = 0
    document = attempt(tmp_path, store, target, 2)
    engine = decode_engine(document.engine)
    assert (document.checkpoint_id, document.offsets, document.checkpoint_id - engine.base) == (13, {FIRST: 60}, 3)
    assert tree(tmp_path / "new-uid/attempt-2/state") == WHOLE


@pytest.mark.parametrize("stateless", [0, 7])
def test_a_copy_has_the_room_of_killed_starts_and_the_documents_state_stays(
    stateless: int, tmp_path: Path, target: RetainedCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts 2 and 3 were killed while they copied. A restore, or a stateless start from the snapshot, follows."""
    current = replace(OLD, job_uid="new-uid", attempt=1, checkpoint_id=7, splits=(KafkaPartitionSplit(FIRST, 0, 90),),
        engine=encode_engine(EngineState(3, METADATA, base=2, attempt=1)))  # fmt: skip
    for number in (1, 2, 3):
        (tmp_path / f"new-uid/attempt-{number}/state/0/0").mkdir(parents=True)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Path, "hardlink_to", killed)
        with pytest.raises(Killed):
            attempt(tmp_path, MemoryStore(encode(current)), target, 4, nonce=0 if stateless else 1, stateless=stateless)
    assert sorted(each.name for each in (tmp_path / "new-uid").iterdir()) == ["attempt-1", "attempt-4"]


def test_a_job_goes_back_to_the_state_of_another_job(tmp_path: Path, target: RetainedCheckpoint) -> None:
    current = replace(OLD, job_uid="new-uid", attempt=1, checkpoint_id=7, splits=(KafkaPartitionSplit(FIRST, 0, 90),),
        engine=encode_engine(EngineState(3, METADATA, base=2, attempt=1)))  # fmt: skip
    store = MemoryStore(encode(current))
    document = attempt(tmp_path, store, target, 2, nonce=1)
    assert (document.checkpoint_id, document.offsets) == (13, {FIRST: 60}), "the number is behind that of the state"
    assert tree(tmp_path / "new-uid/attempt-2/state") == WHOLE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job_uid": "../old-uid"}, "names no job"),
        ({"job_uid": "a/b"}, "names no job"),
        ({"job_uid": "gone-uid"}, "of the job with UID gone-uid is not in .*/gone-uid/retained/checkpoint-12"),
        ({"engine": "{"}, "the state of checkpoint 12 cannot be used"),
        ({"engine": OLD.engine}, "it names no retained state"),
        ({"checkpoint_id": 13}, "it names no retained state"),
        (
            {"engine": encode_engine(EngineState(6, METADATA, base=9, attempt=4, retained=12))},
            "the state of another checkpoint of that number",
        ),
    ],
)  # fmt: skip
def test_what_names_no_state_is_refused_before_anything_is_written(
    tmp_path: Path, target: RetainedCheckpoint, change: dict[str, str], words: str
) -> None:
    store = MemoryStore()
    with pytest.raises(CheckpointUnusable, match=words):
        attempt(tmp_path, store, replace(target, **change))  # type: ignore[arg-type]
    assert stored(store).checkpoint_id == 0, "the claim alone"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["old-uid"]


def test_the_refusal_says_which_folder_to_copy(tmp_path: Path, target: RetainedCheckpoint) -> None:
    with pytest.raises(CheckpointUnusable) as caught:
        attempt(tmp_path, MemoryStore(), replace(target, job_uid="elsewhere"))
    assert "copy its folder elsewhere/retained/checkpoint-12 to the same place of this volume" in caught.value.remedy
    shutil.copytree(tmp_path / "old-uid/retained", tmp_path / "elsewhere/retained")
    assert attempt(tmp_path, MemoryStore(), replace(target, job_uid="elsewhere")).checkpoint_id == 13


def test_files_that_are_removed_meanwhile_are_missed_by_the_next_attempt(
    tmp_path: Path, target: RetainedCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is deleted just now, and the old job's driver removes its folder."""
    link = Path.hardlink_to

    def vanishing(copy: Path, file: Path) -> None:
        link(copy, file)
        shutil.rmtree(tmp_path / "old-uid/retained", ignore_errors=True)

    monkeypatch.setattr(Path, "hardlink_to", vanishing)
    with pytest.raises(VolumeUnusable):
        attempt(tmp_path, MemoryStore(), target)
    with pytest.raises(CheckpointUnusable, match="checkpoint 12 of the job with UID old-uid is not in"):
        attempt(tmp_path, MemoryStore(), target, 2)
