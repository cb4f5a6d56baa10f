"""The member's reactions, with a client whose answers the test writes: what a real broker cannot be asked to say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import AuthorizationFailed, GroupMemberFenced, KafkaAccessError, KafkaUnreachable
from sparkapp.model.job.group_membership import Assignor, MembershipMode, MembershipOptions
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.group import member as group_member
from sparkapp.source.group.member import KafkaGroupMember
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import CommittedOffsetsInitializer
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.jobs.commit_counter import CommitCounter
from tests.support.patience import PATIENCE

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class FakeConsumer:
    """Calls back in ``poll`` what the test has queued, and answers commits in the order of ``answers``."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.queue: list[Callable[[], None]] = []
        self.answers: list[int] = []
        self.sent: list[dict[TopicPartition, tuple[int, str]]] = []
        self.calls: list[str] = []
        self.member = "member-1"
        self.closed = False
        self.brokers = True
        self.looks = 0

    def list_topics(self, topic: str, *, timeout: float) -> None:
        self.looks += 1
        if not self.brokers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:
        self.calls.append(f"subscribe {','.join(topics)}")
        self.callbacks = callbacks

    def unsubscribe(self) -> None:
        self.calls.append("unsubscribe")

    def poll(self, _: float) -> None:
        if self.queue:
            self.queue.pop(0)()

    def commit(self, *, offsets: list[ClientPartition], asynchronous: bool) -> list[ClientPartition]:
        assert not asynchronous
        self.sent.append(
            {
                TopicPartition(partition.topic, partition.partition): (partition.offset, partition.metadata)
                for partition in offsets
            }
        )
        if self.answers and (code := self.answers.pop(0)):
            raise KafkaException(KafkaError(code))
        return offsets

    def memberid(self) -> str:
        return self.member

    def close(self) -> None:
        self.closed = True

    def __getattr__(self, name: str) -> Callable[[list[ClientPartition]], None]:
        if name not in {"assign", "incremental_assign", "pause"}:
            raise AttributeError(name)
        return lambda partitions: self.calls.append(f"{name} {len(partitions)}")

    # -- what the test says ---------------------------------------------------------------------------------------

    def call(self, name: str, *partitions: TopicPartition) -> None:
        asked = [ClientPartition(partition.topic, partition.partition) for partition in partitions]
        self.queue.append(lambda: self.callbacks[name](self, asked))


class Setting:
    """A membership with its member and the client in between."""

    def __init__(self, assignor: Assignor = Assignor.RANGE, finish_seconds: float = 30) -> None:
        self.commits = CommitCounter()
        self.events: list[str] = []
        self.membership = GroupMembership(
            cluster=FakeCluster({"a": 2}, ends={A0: 10, A1: 10}, commits={A0: 0, A1: 0}),
            initializer=CommittedOffsetsInitializer(ResetStrategy.FAIL), callback=self.commits,
            tell=lambda reason, *_: self.events.append(reason), changed=lambda _: None,
        )  # fmt: skip
        self.membership.start(None, [A0, A1])
        opened: list[FakeConsumer] = []
        self.member = KafkaGroupMember(
            {}, membership=self.membership, options=MembershipOptions(mode=MembershipMode.SUBSCRIBE, assignor=assignor),
            finish_seconds=finish_seconds,
            open_consumer=lambda config: opened.append(FakeConsumer(config)) or opened[0],  # type: ignore[func-returns-value]
        )  # fmt: skip
        self.client = opened[0]

    def join(self) -> None:
        assert self.membership.take() == {}
        self.await_(lambda: bool(self.client.callbacks), "not subscribed")
        self.client.call("on_assign", A0, A1)
        self.await_(lambda: bool(self.membership.take()), "not assigned")

    def await_(self, what: Callable[[], bool], why: str) -> None:
        deadline = Deadline.after(PATIENCE)
        while not what():
            assert not deadline.expired, why
            time.sleep(0.005)


@pytest.fixture
def setting() -> Iterator[Callable[..., Setting]]:
    made: list[Setting] = []

    def make(**fields: Any) -> Setting:
        made.append(Setting(**fields))
        return made[-1]

    yield make
    for site in made:
        site.member.close()
        assert site.client.closed


@pytest.mark.parametrize(
    ("assignor", "call"), [(Assignor.RANGE, "assign"), (Assignor.COOPERATIVE_STICKY, "incremental_assign")]
)
def test_what_is_assigned_is_paused_at_once(setting: Callable[..., Setting], assignor: Assignor, call: str) -> None:
    site = setting(assignor=assignor)
    site.join()
    assert site.client.calls == ["subscribe a", f"{call} 2", "pause 2"]


def test_a_rebalance_in_progress_makes_a_commit_wait_and_nothing_fail(setting: Callable[..., Setting]) -> None:
    site = setting()
    site.join()
    site.client.answers = [KafkaError.REBALANCE_IN_PROGRESS, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, 0]
    site.membership.commit({A0: 4}, "uid/1/1")
    site.await_(lambda: site.commits.succeeded == 1, "not committed")
    assert site.client.sent == [{A0: (4, "uid/1/1")}] * 3
    assert site.commits.failed == 0


@pytest.mark.parametrize("code", [KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID])
def test_a_commit_of_another_generation_counts_as_failed(setting: Callable[..., Setting], code: int) -> None:
    site = setting()
    site.join()
    site.client.answers = [code]
    site.membership.commit({A0: 4})
    site.await_(lambda: site.commits.failed == 1, "not refused")
    assert site.membership.drain(0)
    assert site.membership.take() == {A0: 0, A1: 0}, "what is lost, the client says"


def test_nothing_is_committed_without_a_member_id(setting: Callable[..., Setting]) -> None:
    site = setting()
    site.join()
    site.client.member = ""
    site.membership.commit({A0: 4})
    site.await_(lambda: site.commits.failed == 1, "not refused")
    assert site.client.sent == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.FENCED_INSTANCE_ID, GroupMemberFenced),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
    ],
)
def test_a_commit_that_ends_the_membership_ends_the_attempt(
    setting: Callable[..., Setting], code: int, kind: type[Exception]
) -> None:
    site = setting()
    site.join()
    site.client.answers = [code]
    site.membership.commit({A0: 4})
    site.await_(lambda: site.client.closed, "the member continues")
    with pytest.raises(kind):
        site.membership.take()


def test_a_revocation_gives_back_after_the_checkpoint_is_committed(setting: Callable[..., Setting]) -> None:
    site = setting()
    site.join()
    site.membership.take()
    site.client.call("on_revoke", A0, A1)
    time.sleep(0.3)
    assert "PartitionsRevoked" not in site.events
    site.membership.commit({A0: 4, A1: 5})
    site.membership.complete([KafkaPartitionSplit(A0, 0, 4), KafkaPartitionSplit(A1, 0, 5)])
    site.await_(lambda: "PartitionsRevoked" in site.events, "not given back")
    assert site.client.sent == [{A0: (4, ""), A1: (5, "")}]
    assert site.membership.take() == {}


def test_a_revocation_that_cannot_wait_longer_gives_up_uncommitted(setting: Callable[..., Setting]) -> None:
    site = setting(finish_seconds=0.2)
    site.join()
    site.membership.take()
    site.client.call("on_revoke", A0, A1)
    site.await_(lambda: "PartitionsLost" in site.events, "it waits for ever")
    site.membership.commit({A0: 4})
    time.sleep(0.3)
    assert site.client.sent == []


def test_a_surprise_in_the_members_thread_ends_the_attempt(setting: Callable[..., Setting]) -> None:
    site = setting()
    site.join()
    site.client.queue.append([].pop)
    site.await_(lambda: site.client.closed, "the member continues")
    with pytest.raises(KafkaAccessError, match="IndexError"):
        site.membership.take()


def test_a_member_that_knows_no_broker_any_more_ends_the_attempt(
    setting: Callable[..., Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka would say nothing (its issue 5301), and the job would stand still as a member of nothing."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(group_member, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=time.sleep))
    site = setting()
    site.join()

    def looks(*, brokers: bool, after: float) -> None:
        site.client.brokers, before = brokers, site.client.looks
        clock.now += after
        site.await_(lambda: site.client.looks == before + 1, "the member does not look")

    looks(brokers=False, after=29)
    looks(brokers=True, after=29)
    looks(brokers=False, after=29)
    looks(brokers=True, after=29)
    assert not site.client.closed, "brokers may be away for a moment"
    looks(brokers=False, after=31)
    site.await_(lambda: site.client.closed, "the member continues")
    with pytest.raises(KafkaUnreachable, match="no broker"):
        site.membership.take()
