"""Whose offsets recovery asks the group for, where subtasks have committed by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from sparkapp.checkpoint.recovery import rolled_back
from sparkapp.checkpoint.recovery.local_starts import GroupAnswer, starts_of
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.checkpoint.document import CheckpointDocument, LocalPart
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.jobs.plain_job import plain_spec

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FOUND = GroupOffset(150)
SPEC = plain_spec(source=Source(topics=("a",), group_id="group"))
JOB = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=6, spec=SPEC)
DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=5, checkpoint_id=9, created_at="", parallelism=2, prefix="p", evidence_group="group",
    splits=tuple(KafkaPartitionSplit(each, 80, 100) for each in (A0, A1)), topic_ids={"a": "1"},
    local=LocalPart(era=5, placed=frozenset({A0, A1})),
)  # fmt: skip


@dataclass
class Group:
    """Has committed all partitions."""

    config: object
    group_id: str
    confirm_as: str

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        return dict.fromkeys(partitions, FOUND)


@pytest.fixture(autouse=True)
def group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolled_back, "GroupOffsetsEvidence", Group)


def final(cluster: FakeCluster) -> GroupAnswer:
    return rolled_back.KafkaGroupMarks(JOB, {}, cluster).final(DOCUMENT)


class Lagging(FakeCluster):
    """Its first answers are a broker's that has not heard of the second partition yet, or of the topic."""

    def __init__(self, known: int, **options: Any) -> None:
        super().__init__({"a": 2}, **options)
        self.known = known
        self.left = 1 if known else 2

    def topics(self) -> dict[str, int]:
        return self.existing(["a"])

    def existing(self, topics: Any) -> dict[str, int]:
        self.left -= 1
        found = super().existing(topics)
        return {name: self.known for name in found if self.known} if self.left >= 0 else found


@pytest.mark.parametrize("known", [0, 1])
@pytest.mark.parametrize("ids", [{}, {"a": "1"}])
def test_a_partition_that_a_broker_has_not_heard_of_is_asked_for(known: int, ids: dict[str, str]) -> None:
    """The document's offset is a lower bound: the records behind it would be written again."""
    assert final(Lagging(known, ids=ids)) == {A0: FOUND, A1: FOUND}


def test_partitions_that_are_gone_and_recreated_topics_are_left_out() -> None:
    assert final(FakeCluster({"a": 1}, ids={"a": "1"})) == {A0: FOUND}
    assert final(FakeCluster({"a": 2}, ids={"a": "2"})) == {}
    assert final(FakeCluster({"b": 1})) == {}


class Undecided(FakeCluster):
    """The topic is being deleted. Brokers that have not heard of it know the partitions, and others no id."""

    def gone(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        return set()

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {}


@pytest.mark.parametrize("partitions", [{"b": 1}, {"a": 2}], ids=["deleted", "recreated"])
def test_a_topic_that_brokers_disagree_about_has_not_lost_its_offsets(
    partitions: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group has no offsets of a deleted topic. The enumerator says what became of it."""
    monkeypatch.setattr(Group, "committed", lambda group, partitions: {})
    answer = final(Undecided(partitions, ids={"a": "2"}))
    assert DOCUMENT.local is not None
    assert starts_of(DOCUMENT, DOCUMENT.local, answer, JOB) == {A0: 100, A1: 100}


@pytest.mark.parametrize("left", [{"b": 1}, {"a": 2, "b": 1}], ids=["deleted", "recreated"])
def test_a_topic_that_is_deleted_before_the_group_is_read_has_not_lost_its_offsets(
    left: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster({"a": 2, "b": 1}, ids={"a": "1"})

    def deleted(_: Group, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        cluster.partitions, cluster.ids = left, {"a": "2"}
        return {}

    monkeypatch.setattr(Group, "committed", deleted)
    answer = final(cluster)
    assert DOCUMENT.local is not None
    assert starts_of(DOCUMENT, DOCUMENT.local, answer, JOB) == {A0: 100, A1: 100}


def test_a_partition_that_the_document_does_not_know_is_asked_for() -> None:
    assert final(FakeCluster({"a": 3, "b": 1}, ids={"a": "1"})) == dict.fromkeys(
        (A0, A1, TopicPartition("a", 2)), FOUND
    )
