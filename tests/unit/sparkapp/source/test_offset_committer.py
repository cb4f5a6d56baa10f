"""The committer of group offsets beside a consumer whose answers the test decides (case S37)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.model.errors import AuthorizationFailed, CheckpointConflict, GroupInUse
from sparkapp.model.partition import TopicPartition
from sparkapp.source import offset_committer, plain_offsets
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.plain_offsets import PlainOffsets

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Answer:
    """One partition of a commit's answer."""

    def __init__(self, asked: ClientPartition, error: KafkaError | None) -> None:
        self.topic, self.partition, self.error = asked.topic, asked.partition, error


class StandInConsumer:
    """Keeps what is committed; waits at the gate first; refuses what the test names."""

    def __init__(self, _: Mapping[str, str]) -> None:
        self.requests: list[dict[TopicPartition, int]] = []
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.refused: dict[TopicPartition, int] = {}
        self.raised: int | None = None
        self.defect: Exception | None = None
        self.closed = False

    def commit(self, *, offsets: list[ClientPartition], asynchronous: bool) -> list[Answer]:
        assert not asynchronous
        self.requests.append({TopicPartition(one.topic, one.partition): one.offset for one in offsets})
        self.begun.release()
        assert self.gate.acquire(timeout=10)
        if self.defect is not None:
            raise self.defect
        if self.raised is not None:
            raise KafkaException(KafkaError(self.raised))
        errors = {partition: KafkaError(code) for partition, code in self.refused.items()}
        return [Answer(one, errors.get(TopicPartition(one.topic, one.partition))) for one in offsets]

    def close(self) -> None:
        self.closed = True


class Heard:
    def __init__(self) -> None:
        self.answers: list[tuple[dict[TopicPartition, int], bool]] = []
        self.defect: Exception | None = None

    def on_complete(self, offsets: Mapping[TopicPartition, int], error: str) -> None:
        if self.defect is not None:
            raise self.defect
        self.answers.append((dict(offsets), not error))


@pytest.fixture
def committer(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OffsetCommitter, Any, Heard]]:
    monkeypatch.setattr(plain_offsets, "Consumer", StandInConsumer)
    heard = Heard()
    sender: Any = PlainOffsets({}, lambda: None)
    opened = OffsetCommitter(sender, heard)
    consumer: Any = sender._consumer
    yield opened, consumer, heard
    for _ in range(9):
        consumer.gate.release()
    opened.close()


def test_S37_newer_offsets_replace_those_that_wait(committer: tuple[OffsetCommitter, Any, Heard]) -> None:
    one, consumer, heard = committer
    one.commit({A0: 1})
    assert consumer.begun.acquire(timeout=10)
    one.commit({A0: 2, A1: 7})
    one.commit({A0: 3})
    assert not one.drain(0.05), "one is under way, others wait"
    assert consumer.requests == [{A0: 1}], "one commit at a time"
    consumer.gate.release()
    consumer.gate.release()
    assert one.drain(10)
    assert consumer.requests == [{A0: 1}, {A0: 3, A1: 7}]
    assert heard.answers == [({A0: 1}, True), ({A0: 3, A1: 7}, True)]


def test_S37_a_failed_commit_goes_along_with_the_next_one(committer: tuple[OffsetCommitter, Any, Heard]) -> None:
    one, consumer, heard = committer
    consumer.raised = KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.gate.release()
    one.commit({A0: 1, A1: 1})
    assert one.drain(10)
    consumer.raised = None
    consumer.gate.release()
    one.commit({A1: 2})
    assert one.drain(10)
    assert consumer.requests == [{A0: 1, A1: 1}, {A0: 1, A1: 2}]
    assert heard.answers == [({}, False), ({A0: 1, A1: 2}, True)]


def test_a_client_that_finds_no_coordinator_is_replaced(committer: tuple[OffsetCommitter, Any, Heard]) -> None:
    """It may know no broker any more; the next one begins with the configured ones."""
    one, consumer, heard = committer
    consumer.raised = KafkaError._WAIT_COORD
    consumer.gate.release()
    one.commit({A0: 1})
    assert one.drain(10)
    assert consumer.closed
    sender: Any = one._sender
    successor = sender._consumer
    successor.gate.release()
    one.commit({A0: 2})
    assert one.drain(10)
    assert (consumer.requests, successor.requests) == ([{A0: 1}], [{A0: 2}])
    assert heard.answers == [({}, False), ({A0: 2}, True)]


def test_S37_a_refusal_of_some_partitions_is_a_failed_commit(committer: tuple[OffsetCommitter, Any, Heard]) -> None:
    one, consumer, heard = committer
    consumer.refused = {A1: KafkaError.TOPIC_AUTHORIZATION_FAILED}
    consumer.gate.release()
    one.commit({A0: 1, A1: 1})
    assert one.drain(10)
    assert heard.answers == [({A0: 1}, False)]
    consumer.gate.release()
    one.commit({A0: 2})
    assert one.drain(10)
    assert consumer.requests[1] == {A0: 2, A1: 1}


def test_S37_offsets_of_a_partition_that_is_gone_are_given_up(committer: tuple[OffsetCommitter, Any, Heard]) -> None:
    one, consumer, heard = committer
    consumer.refused = {A1: KafkaError.UNKNOWN_TOPIC_OR_PART}
    consumer.gate.release()
    one.commit({A0: 1, A1: 1})
    assert one.drain(10)
    consumer.gate.release()
    one.commit({A0: 2})
    assert one.drain(10)
    assert consumer.requests[1] == {A0: 2}
    assert heard.answers == [({A0: 1}, False), ({A0: 2}, True)]


def test_withdrawn_offsets_are_not_committed_any_more_and_what_is_under_way_is_waited_for(
    committer: tuple[OffsetCommitter, Any, Heard],
) -> None:
    one, consumer, _ = committer
    one.commit({A0: 1})
    assert consumer.begun.acquire(timeout=10)
    one.commit({A0: 2, A1: 7})
    assert not one.withdraw([A0], 0.05), "a commit is under way"
    consumer.gate.release()
    assert consumer.begun.acquire(timeout=10)
    consumer.gate.release()
    assert one.withdraw([A0], 10)
    assert consumer.requests == [{A0: 1}, {A1: 7}]


def test_placing_marks_insists(committer: tuple[OffsetCommitter, Any, Heard]) -> None:
    one, consumer, heard = committer
    consumer.gate.release()
    one.place({A0: 3}, "mark")
    assert consumer.requests == [{A0: 3}]
    consumer.refused = {A1: KafkaError.GROUP_AUTHORIZATION_FAILED}
    consumer.gate.release()
    with pytest.raises(AuthorizationFailed, match="a-1"):
        one.place({A0: 3, A1: 4}, "mark")
    assert heard.answers == [], "these are not the commits of checkpoints"


def test_C10_a_group_with_members_of_its_own_is_named(
    committer: tuple[OffsetCommitter, Any, Heard], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka lets only members commit to a group that has some; one that is about to leave is waited for."""
    one, consumer, heard = committer
    monkeypatch.setattr(offset_committer, "_PLACE_SECONDS", 0.5)
    consumer.raised = KafkaError.UNKNOWN_MEMBER_ID
    for _ in range(9):
        consumer.gate.release()
    with pytest.raises(GroupInUse, match="UNKNOWN_MEMBER_ID") as caught:
        one.place({A0: 3}, "mark")
    assert "source.groupId" in caught.value.remedy
    assert len(consumer.requests) > 1
    one.commit({A0: 4})
    assert one.drain(10)
    assert heard.answers == [({}, False)]
    assert "source.groupId" in caplog.text


@pytest.mark.parametrize("in_callback", [False, True])
def test_a_defect_in_one_commit_ends_neither_the_thread_nor_a_wait_for_it(
    committer: tuple[OffsetCommitter, Any, Heard], in_callback: bool
) -> None:
    one, consumer, heard = committer
    (heard if in_callback else consumer).defect = RuntimeError("Consumer closed")
    consumer.gate.release()
    one.commit({A0: 1, A1: 1})
    assert one.drain(10)
    assert one.withdraw([A1], 10)
    heard.defect = consumer.defect = None
    consumer.gate.release()
    one.commit({A0: 2})
    assert one.drain(10)
    assert consumer.requests == [{A0: 1, A1: 1}, {A0: 2}]
    failed = [] if in_callback else [({}, False)]
    assert heard.answers == [*failed, ({A0: 2}, True)], "D18: a commit that raises is a failed one"


def test_A2_a_superseded_driver_commits_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_offsets, "Consumer", StandInConsumer)

    def superseded() -> None:
        msg = "attempt 2 has claimed the checkpoint"
        raise CheckpointConflict(msg)

    heard = Heard()
    sender: Any = PlainOffsets({}, superseded)
    one = OffsetCommitter(sender, heard)
    one.commit({A0: 1})
    assert one.drain(10)
    with pytest.raises(CheckpointConflict):
        one.place({A0: 1}, "mark")
    one.close()
    assert heard.answers == [({}, False)]
    assert sender._consumer.requests == []
