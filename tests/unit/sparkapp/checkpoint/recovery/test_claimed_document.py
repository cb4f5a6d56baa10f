"""A driver that was frozen may write between the read and the claim of the attempt behind it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.checkpoint.recovery.rolled_back import GroupMarks
from sparkapp.checkpoint.store import Stored
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointConflict, CheckpointCorrupt, CheckpointStoreUnavailable, StateRolledBack
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.group_evidence import NoMarks
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import LossyStore, MemoryStore
from tests.support.fakes.transactions import FakeControl
from tests.support.jobs.plain_job import plain_spec

_PARTITION = TopicPartition("in", 0)


class OvertakenStore(MemoryStore):
    """The texts of another writer arrive behind reads: the first behind the first read, and so on."""

    def __init__(self, *texts: str | None) -> None:
        super().__init__(texts[0])
        self._others = list(texts[1:])
        self.reads = 0

    def read(self) -> Stored:
        found = super().read()
        self.reads += 1
        if self._others:
            super().write(str(self._others.pop(0)), expected=found.version)
        return found


def document(checkpoint: int, attempt: int = 3) -> str:
    """That of a checkpoint that has read ten records more than the one before."""
    return encode(
        CheckpointDocument(
            job_uid="uid", attempt=attempt, checkpoint_id=checkpoint, created_at="", parallelism=1, prefix="p",
            splits=(KafkaPartitionSplit(_PARTITION, 10 * checkpoint, 10 * checkpoint + 10),),
        )
    )  # fmt: skip


class MarksOfADriverThatResumes(NoMarks):
    """Before the answer, the driver writes its next document and commits."""

    def __init__(self, store: MemoryStore, checkpoint: int) -> None:
        self._store = store
        self._checkpoint = checkpoint

    def of(self, _: CheckpointDocument | None) -> Collection[str]:
        found = self._store.read()
        if found.text is None or decode(found.text, job_uid="uid").checkpoint_id < self._checkpoint:
            self._store.write(document(self._checkpoint), expected=found.version)
        return [offset_mark("uid", 3, self._checkpoint)]


def start(store: MemoryStore, control: FakeControl, marks: GroupMarks | None = None) -> Recovery:
    spec = plain_spec()
    spec = replace(spec, sink=replace(spec.sink, transactional_id_prefix="p"))
    return recover(
        Job(namespace="n", name="job", uid="uid", generation=1, attempt=4, spec=spec), store=store, control=control,
        now="now", retained=MemoryRetainedStore(), engine=QueryState(), clusters=ClusterIds("", ""),
        marks=marks or NoMarks(),
    )  # fmt: skip


@pytest.mark.parametrize("checkpoints", [(7, 8), (7, 7, 8, 8, 9), (None, 1)])
def test_an_attempt_resumes_behind_the_last_document_of_a_driver_that_was_frozen(
    checkpoints: tuple[int | None, ...],
) -> None:
    store = OvertakenStore(*(None if each is None else document(each) for each in checkpoints))
    recovery = start(store, FakeControl())
    assert (recovery.document.checkpoint_id, recovery.document.attempt) == (checkpoints[-1], 4)
    assert recovery.document.splits[0].start == 10 * (checkpoints[-1] or 0)
    assert decode(store.read().text or "", job_uid="uid").attempt == 4


def test_a_writer_that_is_faster_each_time_ends_the_attempt_without_a_commit() -> None:
    store, control = OvertakenStore(*(document(each) for each in range(7, 40))), FakeControl()
    with pytest.raises(CheckpointConflict):
        start(store, control)
    assert (store.reads, control.calls) == (5, [])


def test_a_newer_attempt_that_claims_in_between_ends_the_attempt_at_once() -> None:
    store, control = OvertakenStore(document(7), document(7, attempt=5)), FakeControl()
    with pytest.raises(CheckpointConflict, match="attempt 5 has claimed"):
        start(store, control)
    assert (store.reads, control.calls) == (3, [])


def test_what_was_written_in_between_is_validated_like_the_first_document() -> None:
    store = OvertakenStore(document(7), '{"formatVersion": 1')
    with pytest.raises(CheckpointCorrupt):
        start(store, FakeControl())
    assert store.read().text == '{"formatVersion": 1', "nothing was changed"


@pytest.mark.parametrize("text", [document(7), None])
def test_a_commit_behind_the_read_of_its_document_is_no_sign_of_an_earlier_state(text: str | None) -> None:
    """The group knows checkpoint 8, and the document that was read before does not."""
    store = MemoryStore(text)
    recovery = start(store, FakeControl(), MarksOfADriverThatResumes(store, 8))
    assert (recovery.document.checkpoint_id, recovery.document.attempt) == (8, 4)


def test_a_document_that_is_older_than_its_group_s_commits_is_refused_as_before() -> None:
    store = MemoryStore(document(7))
    marks = MarksOfADriverThatResumes(MemoryStore(document(8)), 8)
    with pytest.raises(StateRolledBack, match=r"the state is at checkpoint 7 .* checkpoint 8 of attempt 3"):
        start(store, FakeControl(), marks)
    assert store.read().text == document(7)


@pytest.mark.parametrize("is_written", [True, False])
def test_a_claim_without_an_answer_is_left_to_the_next_attempt(*, is_written: bool) -> None:
    """Another driver with the same number writes the same text, so the text does not say whose claim it is."""
    store, control = LossyStore(document(7)), FakeControl()
    store.silent, store.writes_first = 1, is_written
    with pytest.raises(CheckpointStoreUnavailable):
        start(store, control)
    assert control.calls == []
