"""The committer of group offsets with a sender whose answers the test decides (case S37)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.model.checkpoint.offset_commit import Refusal
from sparkapp.model.errors import AuthorizationFailed, CheckpointConflict, GroupInUse, KafkaAccessError
from sparkapp.model.partition import TopicPartition
from sparkapp.source import offset_committer, plain_offsets
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.plain_offsets import PlainOffsets
from tests.support.patience import PATIENCE, until

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class StandInSender:
    """Keeps what is committed; waits at the gate first; refuses what the test names."""

    def __init__(self) -> None:
        self.requests: list[dict[TopicPartition, int]] = []
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.refused: dict[TopicPartition, Refusal] = {}
        self.defect: Exception | None = None

    def send(self, offsets: Mapping[TopicPartition, int], mark: str) -> dict[TopicPartition, Refusal]:
        self.requests.append(dict(offsets))
        self.begun.release()
        assert self.gate.acquire(timeout=PATIENCE)
        if self.defect is not None:
            raise self.defect
        return {each: refusal for each, refusal in self.refused.items() if each in offsets}

    def close(self) -> None:
        pass


class StandInConsumer:
    """Keeps what is committed; raises what the test names, as the client does where any partition is refused."""

    def __init__(self, _: Mapping[str, str]) -> None:
        self.requests: list[dict[TopicPartition, int]] = []
        self.raised: int | None = None
        self.closed = False

    def commit(self, *, offsets: list[ClientPartition], asynchronous: bool) -> None:
        assert not asynchronous
        self.requests.append({TopicPartition(each.topic, each.partition): each.offset for each in offsets})
        if self.raised is not None:
            raise KafkaException(KafkaError(self.raised))

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


Committing = tuple[OffsetCommitter, StandInSender, Heard]


@pytest.fixture
def committer() -> Iterator[Committing]:
    heard, sender = Heard(), StandInSender()
    opened = OffsetCommitter(sender, heard)
    yield opened, sender, heard
    for _ in range(9):
        sender.gate.release()
    opened.close()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OffsetCommitter, Any, Heard]]:
    """A committer without transactions, and its sender."""
    monkeypatch.setattr(plain_offsets, "Consumer", StandInConsumer)
    heard = Heard()
    sender: Any = PlainOffsets({}, lambda: None)
    opened = OffsetCommitter(sender, heard)
    yield opened, sender, heard
    opened.close()


def idle(committer: OffsetCommitter) -> None:
    until(lambda: not (committer._waiting or committer._busy))


def refusal(error: KafkaAccessError | None = None, *, is_gone: bool = False) -> Refusal:
    return Refusal(error or KafkaAccessError("refused"), is_gone=is_gone)


def test_S37_newer_offsets_replace_those_that_wait(committer: Committing) -> None:
    each, sender, heard = committer
    each.commit({A0: 1})
    assert sender.begun.acquire(timeout=PATIENCE)
    each.commit({A0: 2, A1: 7})
    each.commit({A0: 3})
    assert not each.drain(0.05), "one is under way, others wait"
    assert sender.requests == [{A0: 1}], "one commit at a time"
    sender.gate.release()
    sender.gate.release()
    assert each.drain(10)
    assert sender.requests == [{A0: 1}, {A0: 3, A1: 7}]
    assert heard.answers == [({A0: 1}, True), ({A0: 3, A1: 7}, True)]


def test_a_client_that_finds_no_coordinator_is_replaced(plain: tuple[OffsetCommitter, Any, Heard]) -> None:
    """It may know no broker any more; the next one begins with the configured ones."""
    each, sender, heard = plain
    consumer = sender._consumer
    consumer.raised = KafkaError._WAIT_COORD
    each.commit({A0: 1})
    idle(each)
    assert consumer.closed
    each.commit({A0: 2})
    idle(each)
    assert (consumer.requests, sender._consumer.requests) == ([{A0: 1}], [{A0: 2}])
    assert heard.answers == [({}, False), ({A0: 2}, True)]


@pytest.mark.parametrize("refused", [{A1}, {A0, A1}])
def test_S37_offsets_that_were_refused_go_along_with_the_next_commit(
    committer: Committing, refused: set[TopicPartition]
) -> None:
    each, sender, heard = committer
    sender.refused = dict.fromkeys(refused, refusal())
    sender.gate.release()
    each.commit({A0: 1, A1: 1})
    idle(each)
    assert heard.answers == [({A0: 1} if A0 not in refused else {}, False)]
    sender.refused = {}
    sender.gate.release()
    each.commit({A0: 2})
    idle(each)
    assert sender.requests == [{A0: 1, A1: 1}, {A0: 2, A1: 1}], "the newest offset of each partition"
    assert heard.answers[1:] == [({A0: 2, A1: 1}, True)]


def test_S37_an_orderly_stop_commits_once_more_what_was_refused(committer: Committing) -> None:
    each, sender, heard = committer
    sender.refused = {A1: refusal()}
    sender.gate.release()
    each.commit({A0: 1, A1: 1})
    idle(each)
    sender.gate.release()
    assert not each.drain(10), "it is refused again"
    sender.refused = {}
    sender.gate.release()
    assert each.drain(10)
    assert sender.requests == [{A0: 1, A1: 1}, {A1: 1}, {A1: 1}]
    assert heard.answers[-1] == ({A1: 1}, True)


def test_S37_what_was_refused_is_committed_without_another_checkpoint(
    committer: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle job has none for hours, and the group would show a lag that is not there."""
    monkeypatch.setattr(offset_committer, "_AGAIN_SECONDS", 0.01)
    each, sender, heard = committer
    sender.refused = {A0: refusal()}
    sender.gate.release()
    each.commit({A0: 1})
    assert sender.begun.acquire(timeout=PATIENCE)
    assert sender.begun.acquire(timeout=PATIENCE)
    sender.refused = {}
    sender.gate.release()
    until(lambda: len(heard.answers) == 2)
    assert heard.answers == [({}, False), ({A0: 1}, True)]


def test_S37_offsets_of_a_partition_that_is_gone_are_given_up(committer: Committing) -> None:
    each, sender, heard = committer
    sender.refused = {A1: refusal(is_gone=True)}
    sender.gate.release()
    each.commit({A0: 1, A1: 1})
    idle(each)
    sender.gate.release()
    each.commit({A0: 2})
    idle(each)
    assert sender.requests[1] == {A0: 2}
    assert heard.answers == [({A0: 1}, False), ({A0: 2}, True)]


def test_a_withdrawal_waits_for_offsets_that_wait(committer: Committing) -> None:
    """They may be the only sign of a checkpoint whose transactions have no offsets."""
    each, sender, _ = committer
    each.commit({A0: 1})
    assert sender.begun.acquire(timeout=PATIENCE)
    each.commit({A0: 2, A1: 7})
    assert not each.withdraw([A0], 0.05), "a commit is under way, another one waits"
    sender.gate.release()
    assert sender.begun.acquire(timeout=PATIENCE)
    assert not each.withdraw([A0], 0.05), "the second one is under way"
    sender.gate.release()
    assert each.withdraw([A0], 10)
    assert sender.requests == [{A0: 1}, {A0: 2, A1: 7}]


def test_a_withdrawal_forgets_offsets_that_were_refused(committer: Committing) -> None:
    each, sender, _ = committer
    sender.refused = dict.fromkeys((A0, A1), refusal())
    sender.gate.release()
    each.commit({A0: 1, A1: 1})
    assert each.withdraw([A0], 10)
    sender.refused = {}
    sender.gate.release()
    each.commit({A1: 2})
    idle(each)
    assert sender.requests == [{A0: 1, A1: 1}, {A1: 2}]


def test_placing_marks_insists(committer: Committing) -> None:
    each, sender, heard = committer
    sender.gate.release()
    each.place({A0: 3}, "mark")
    assert sender.requests == [{A0: 3}]
    sender.refused = {A1: refusal(AuthorizationFailed("a-1: no right"))}
    sender.gate.release()
    with pytest.raises(AuthorizationFailed, match="a-1"):
        each.place({A0: 3, A1: 4}, "mark")
    assert heard.answers == [], "these are not the commits of checkpoints"


def test_C10_a_group_with_members_of_its_own_is_named(
    plain: tuple[OffsetCommitter, Any, Heard], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka lets only members commit to a group that has some; one that is about to leave is waited for."""
    each, sender, heard = plain
    monkeypatch.setattr(offset_committer, "_PLACE_SECONDS", 0.5)
    sender._consumer.raised = KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(GroupInUse, match="UNKNOWN_MEMBER_ID") as caught:
        each.place({A0: 3}, "mark")
    assert "source.groupId" in caught.value.remedy
    assert len(sender._consumer.requests) > 1
    each.commit({A0: 4})
    idle(each)
    assert heard.answers == [({}, False)]
    assert "source.groupId" in caplog.text


@pytest.mark.parametrize("in_callback", [False, True])
def test_a_defect_in_one_commit_ends_neither_the_thread_nor_a_wait_for_it(
    committer: Committing, in_callback: bool
) -> None:
    each, sender, heard = committer
    (heard if in_callback else sender).defect = RuntimeError("Consumer closed")
    sender.gate.release()
    each.commit({A0: 1, A1: 1})
    idle(each)
    assert each.withdraw([A1], 10)
    heard.defect = sender.defect = None
    sender.gate.release()
    each.commit({A0: 2})
    idle(each)
    assert sender.requests == [{A0: 1, A1: 1}, {A0: 2}]
    failed = [] if in_callback else [({}, False)]
    assert heard.answers == [*failed, ({A0: 2}, True)], "D18: a commit that raises is a failed one"


def test_A2_a_superseded_driver_commits_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_offsets, "Consumer", StandInConsumer)

    def superseded() -> None:
        msg = "attempt 2 has claimed the checkpoint"
        raise CheckpointConflict(msg)

    heard = Heard()
    sender: Any = PlainOffsets({}, superseded)
    each = OffsetCommitter(sender, heard)
    each.commit({A0: 1})
    idle(each)
    with pytest.raises(CheckpointConflict):
        each.place({A0: 1}, "mark")
    each.close()
    assert heard.answers == [({}, False)]
    assert sender._consumer.requests == []
