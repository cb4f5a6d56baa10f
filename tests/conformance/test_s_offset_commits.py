"""Group S of the catalogue, as far as it is about the group's offsets and what is still to be read (S26, S37)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    NewTopic,
    ResourceType,
)

from sparkapp.model.checkpoint.split import KafkaPartitionSplit, cut_at
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.errors import GroupInUse
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source import offset_committer
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.offsets_initializer import CommittedOffsetsInitializer
from sparkapp.source.plain_offsets import PlainOffsets
from tests.support.jobs.commit_counter import CommitCounter
from tests.support.jobs.committing_job import CommittingJob, fill
from tests.support.jobs.sink_harness import Harness
from tests.support.kafka.secured_broker import Right, grant, login, secured_broker
from tests.support.kafka.topics import create_topics
from tests.support.kubernetes.api_client import await_that

pytestmark = pytest.mark.broker

Jobs = Callable[..., CommittingJob]


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    """``jobs(bootstrap, topics, group, …)``; clients end with the test."""
    made: list[CommittingJob] = []

    def make(*arguments: Any, **options: Any) -> CommittingJob:
        made.append(CommittingJob(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_S37_the_groups_offset_is_the_checkpoints_next_offset(
    jobs: Jobs, broker: str, make_topic: Callable[..., str], unique: str
) -> None:
    topic = make_topic(3)
    read, also_read, unread = (TopicPartition(topic, number) for number in range(3))
    fill(broker, read, 7)
    fill(broker, also_read, 4)
    job = jobs(broker, [topic], unique)
    job.start()
    assert job.committed() == {}
    completed = job.checkpoint()
    assert job.commits == (1, 0)
    assert job.committed() == {read: 7, also_read: 4}, "a partition of which nothing was read is not committed"
    assert completed.document.offsets == {read: 7, also_read: 4, unread: 0}
    fill(broker, read, 2)
    assert job.checkpoint().document.offsets[read] == 9
    assert job.commits == (2, 0)
    assert job.committed() == {read: 9, also_read: 4}


def test_C10_a_group_with_members_of_its_own_takes_no_offset_of_the_jobs(
    broker: str, topic: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_committer, "_PLACE_SECONDS", 1.0)
    config = {"bootstrap.servers": broker, "group.id": unique}
    member = Consumer(config)
    member.subscribe([topic])

    def joined() -> bool:
        member.poll(0.1)
        return bool(member.assignment())

    await_that("the member has joined", joined)
    committer = OffsetCommitter(PlainOffsets(config, lambda: None), CommitCounter())
    with pytest.raises(GroupInUse, match="UNKNOWN_MEMBER_ID"):
        committer.place({TopicPartition(topic, 0): 0}, "mark")
    member.close()
    committer.place({TopicPartition(topic, 0): 0}, "mark")
    committer.close()


def test_S37_before_a_checkpoint_is_complete_nothing_is_committed(
    jobs: Jobs, broker: str, topic: str, unique: str
) -> None:
    fill(broker, TopicPartition(topic, 0), 7)
    job = jobs(broker, [topic], unique)
    job.start()
    splits = job.plan()
    assert job.commits == (0, 0)
    assert job.committed() == {}
    job.complete(splits)
    assert job.commits == (1, 0)


@pytest.mark.parametrize("delivery_guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_S37_disabled_commits_nothing(
    jobs: Jobs, broker: str, topic: str, unique: str, delivery_guarantee: DeliveryGuarantee
) -> None:
    fill(broker, TopicPartition(topic, 0), 7)
    job = jobs(broker, [topic], unique, offset_commit=OffsetCommit.DISABLED, delivery_guarantee=delivery_guarantee)
    job.start()
    job.checkpoint()
    assert job.commits == (0, 0)
    assert job.committed() == {}


def test_S37_an_offset_behind_a_partitions_end_is_put_right_after_the_transaction(
    jobs: Jobs, broker: str, topic: str, unique: str, harness: Callable[..., Harness]
) -> None:
    """A commit outside a transaction, later than the transaction's own offset, wins: markers written or not."""
    partition = TopicPartition(topic, 0)
    fill(broker, partition, 10)
    job = jobs(
        broker, [topic], unique, offset_commit=OffsetCommit.IN_TRANSACTION,
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, prefix=unique,
    )  # fmt: skip
    job.start()
    splits = job.plan()
    writer = harness(group_id=unique).open()
    writer.write(1)
    committables = writer.snapshot(1, splits).pending
    completed = job.complete(cut_at(splits, {partition: 6}), committables)
    assert completed.document.offsets == {partition: 6}
    job.await_committed({partition: 6})


def test_S37_offsets_within_transactions_move_with_the_records(
    jobs: Jobs,
    broker: str,
    make_topic: Callable[..., str],
    unique: str,
    harness: Callable[..., Harness],
) -> None:
    topic = make_topic(2)
    written, filtered = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(broker, written, 7)
    fill(broker, filtered, 3)
    job = jobs(
        broker, [topic], unique, offset_commit=OffsetCommit.IN_TRANSACTION,
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, prefix=unique,
    )  # fmt: skip
    job.start()
    splits = job.plan()
    ranges = tuple(split for split in splits if split.partition == written)
    writer = harness(group_id=unique).open()
    writer.write(1)
    committables = writer.snapshot(1, ranges).pending
    assert job.committed(stable=False) == {written: 0}, "marked where it starts"
    job.complete(splits, committables)
    # The subtask of the other partition kept no record, so it had no transaction: that offset follows by itself.
    assert job.commits == (2, 0)
    job.await_committed({written: 7, filtered: 3})
    assert job.progress.snapshot.committed == {written: 7, filtered: 3}


def test_S37_offsets_of_a_topic_that_is_gone_are_given_up(
    jobs: Jobs, broker: str, make_topic: Callable[..., str], unique: str
) -> None:
    kept, gone = TopicPartition(make_topic(), 0), TopicPartition(make_topic(), 0)
    for each in (kept, gone):
        fill(broker, each, 5)
    job = jobs(broker, [kept.topic, gone.topic], unique)
    job.start()
    splits = job.plan()
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_topics([gone.topic])[gone.topic].result(30)
    await_that("the topic is gone", lambda: gone.topic not in job.cluster.topics())
    job.complete(splits)
    assert job.commits == (0, 1)
    fill(broker, kept, 1)
    job.complete((KafkaPartitionSplit(kept, 5, 6),))
    assert job.commits == (1, 1), "refused again, had an offset of it gone along"
    job.complete((KafkaPartitionSplit(kept, 6, 6),))
    assert job.progress.snapshot.committed == {kept: 6}


def test_S29_without_a_group_of_its_own_a_job_commits_under_its_names(
    jobs: Jobs, broker: str, topic: str, unique: str
) -> None:
    resource = {"kafka": {"bootstrapServers": broker}, "source": {"topics": [topic]}, "sink": {"topic": "out"}}
    spec = spec_from_resource(resource, namespace="shop", name=unique)
    fill(broker, TopicPartition(topic, 0), 7)
    job = jobs(broker, [topic], spec.source.group_id)
    job.start()
    assert job.committed() == {}, "no offsets but those of a checkpoint"
    job.checkpoint()
    assert job.commits == (1, 0)
    assert job.group_id == f"shop.{unique}"
    assert job.committed() == {TopicPartition(topic, 0): 7}
    begun = CommittedOffsetsInitializer(ResetStrategy.FAIL).offsets([TopicPartition(topic, 0)], job.cluster)
    assert begun == {TopicPartition(topic, 0): 7}, "GroupOffsets finds them without a groupId"


# -- refusals, on a broker with rights ------------------------------------------------------------------------------


ADMIN, JOB = login("admin", "a"), login("job", "j")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker where user ``job`` may read topic ``in`` and group ``mine``, and describe topic ``closed``."""

    rights = (
        Right(ResourceType.TOPIC, "in", AclOperation.READ),
        Right(ResourceType.TOPIC, "closed", AclOperation.DESCRIBE),
        Right(ResourceType.GROUP, "mine", AclOperation.READ),
    )
    with secured_broker(tmp_path_factory.mktemp("secured"), *rights, topics=["in", "closed"]) as broker:
        for topic in ("in", "closed"):
            fill(broker.bootstrap, TopicPartition(topic, 0), 5, ADMIN)
        await_that("the group's coordinator is loaded", lambda: coordinates(broker.bootstrap, "mine"))
        yield broker.bootstrap


def coordinates(bootstrap: str, group: str) -> bool:
    """Whether the group's coordinator answers. A young broker looks for one, and loads it, for a moment."""
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **ADMIN})
    try:
        (answer,) = member.committed([ClientPartition("in", 0)], timeout=10)
        return answer.error is None
    except KafkaException:
        return False
    finally:
        member.close()


def test_S37_a_group_that_may_not_be_written_is_counted_and_the_job_continues(jobs: Jobs, secured: str) -> None:
    job = jobs(secured, ["in"], "not-mine", client=JOB, admin=ADMIN)
    job.start()
    job.checkpoint()
    fill(secured, TopicPartition("in", 0), 1, ADMIN)
    completed = job.checkpoint()
    assert completed.document.checkpoint_id == 2, "checkpoints continue"
    # librdkafka looks for a coordinator that it may talk to for most of a minute.
    await_that("the failure is counted", lambda: job.report.get("commits_failed"), seconds=120)
    assert job.report["commits_succeeded"] == 0
    assert job.committed() == {}
    assert job.progress.snapshot.committed == {}


def test_S37_a_topic_that_may_not_be_read_fails_the_commit_and_spares_the_others(jobs: Jobs, secured: str) -> None:
    mine, closed = TopicPartition("in", 0), TopicPartition("closed", 0)
    job = jobs(secured, ["in", "closed"], "mine", client=JOB, admin=ADMIN)
    job.start()
    end = job.checkpoint().document.offsets[mine]
    assert job.commits == (0, 1)
    assert job.committed() == {mine: end}
    assert job.progress.snapshot.committed == {}, "the client reports the first error, not what was spared"
    grant(secured, Right(ResourceType.TOPIC, "closed", AclOperation.READ))
    fill(secured, mine, 1, ADMIN)
    job.checkpoint()
    assert job.commits == (1, 1)
    assert job.committed() == {mine: end + 1, closed: 5}, "what was refused went along with the next commit"


# -- a slow commit, on a broker that hangs --------------------------------------------------------------------------


def test_S37_while_a_commit_is_slow_newer_offsets_replace_those_that_wait(
    jobs: Jobs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from localcluster.kafka.broker import Broker

    topic, group = "slow", "slow-group"
    partition = TopicPartition(topic, 0)
    with Broker.ephemeral(tmp_path_factory.mktemp("slow")) as broker:
        create_topics(broker.bootstrap, NewTopic(topic, 1, 1))
        fill(broker.bootstrap, partition, 4)
        job = jobs(broker.bootstrap, [topic], group, max_offsets=1)
        job.start()
        job.checkpoint()  # the group's coordinator is known from now on
        assert job.commits == (1, 0)
        split = job.plan()[0]
        broker.pause()
        for start in (split.start, split.start + 1, split.start + 2):
            job.complete((KafkaPartitionSplit(partition, start, start + 1),))
            await_that("the first commit is under way", lambda: job.group_offsets._busy)
        assert not job.group_offsets.drain(1.0), "the broker has not answered"
        assert job.report["commits_succeeded"] == 1
        assert job.coordinator.document.checkpoint_id == 4, "no checkpoint waited for a commit"
        broker.resume()
        assert job.commits == (3, 0), "one was under way, the two behind it became one"
        assert job.committed() == {partition: 4}
