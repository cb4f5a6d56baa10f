"""Subtasks that commit by themselves: what a start finds on the real broker, and what it refuses (ADR 56)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    CheckpointConflict,
    GroupOffsetsMissing,
    GroupOffsetsMoved,
    StateRolledBack,
    StateUncertain,
    TransactionFenced,
)
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import SETTLED, AttemptOutcome
from sparkapp.spark.settling import settle
from tests.support.protocol.local_run import LocalRun
from tests.support.protocol.story import Story

pytestmark = pytest.mark.broker
Stories = Callable[..., Story]


@pytest.fixture
def job(story: Stories) -> Story:
    """A job with records to read, whose attempts of both paces follow each other."""
    made = story(partitions=2)
    made.produce(120)
    return made


def partitions_of(job: Story) -> tuple[TopicPartition, TopicPartition]:
    return TopicPartition(job.source, 0), TopicPartition(job.source, 1)


def reset(job: Story, offset: int) -> None:
    """A person moves the group by hand, while it has no member."""
    moved = [ClientPartition(*partition, offset) for partition in partitions_of(job)]
    admin = AdminClient({"bootstrap.servers": job.bootstrap})
    (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(job.prefix, moved)]).values()
    future.result(30)


def crashed(job: Story) -> LocalRun:
    """An attempt that has recorded a part of its commits, and has died."""
    run = LocalRun(job)
    run.start()
    run.copy(10)
    run.record()
    run.copy(7)
    run.close()
    return run


def put_back(job: Story, document: str) -> None:
    job.store.write(document, expected=job.store.read().version)


def repeated(job: Story, document: CheckpointDocument, run: LocalRun) -> list[KafkaPartitionSplit]:
    """What was committed after the document."""
    return [KafkaPartitionSplit(each, document.offsets[each], run.offsets[each]) for each in document.offsets]


def test_a_crash_resumes_where_the_group_is(job: Story) -> None:
    died = crashed(job)
    assert set(job.document.offsets.values()) == {10}
    run = LocalRun(job)
    recovery = run.start()
    assert recovery.document.offsets == died.offsets
    assert set(recovery.document.offsets.values()) == {17}
    run.copy(5)
    run.drain()
    assert job.document.drained
    job.finish()


def test_attempts_of_both_paces_follow_each_other(job: Story) -> None:
    job.start(2)
    job.checkpoint()
    crashed(job)
    job.start(3)
    assert set(job.document.offsets.values()) == {37}, "20 by the first checkpoint, then 17"
    assert job.document.local is None
    job.checkpoint()
    run = LocalRun(job, parallelism=3)
    run.start()
    run.drain()
    job.finish()


def test_a_frozen_subtask_commits_nothing_after_the_next_start(job: Story) -> None:
    each, other = partitions_of(job)
    frozen = crashed(job)
    frozen.write(each, 5)
    run = LocalRun(job)
    run.start()
    assert set(run.offsets.values()) == {17}
    for act in (lambda: frozen.commit(each), lambda: frozen.write(other, 5)):
        with pytest.raises(TransactionFenced):
            act()
    run.copy(5)
    run.drain()
    job.finish()


def test_an_idle_subtask_of_a_wider_attempt_is_fenced_too(job: Story) -> None:
    wide = LocalRun(job, parallelism=4)
    wide.start()
    wide.copy(3)
    wide.close()
    run = LocalRun(job, parallelism=1)
    run.start()
    for partition in partitions_of(job):
        with pytest.raises(TransactionFenced):
            wide.copy(3, partition)
    run.copy(2)
    run.drain()
    job.finish()


def test_a_superseded_driver_grants_nothing(job: Story) -> None:
    old = LocalRun(job)
    old.recover()
    run = LocalRun(job)
    run.start()
    run.copy(4)
    old.open()  # fences the subtasks of its successor
    with pytest.raises(CheckpointConflict):
        old.grant()
    old.close()
    for subtask in range(2):
        run.grant_again(subtask)
    assert set(run.offsets.values()) == {4}
    run.copy(4)
    run.drain()
    job.finish()


def test_a_superseded_driver_replaces_no_subtask(job: Story) -> None:
    old = crashed(job)
    run = LocalRun(job)
    run.start()
    with pytest.raises(CheckpointConflict):
        old.grant_again(0)
    run.grant_again(0)
    run.copy(4)
    run.drain()
    job.finish()


def test_a_new_instance_starts_after_the_last_commit_of_its_predecessor(job: Story) -> None:
    run = LocalRun(job)
    run.start()
    run.copy(10)
    run.record()
    run.copy(5)
    for partition in run.offsets:
        run.write(partition, 3)  # is never committed
        run.grant_again(run.owner(partition))
    assert set(run.offsets.values()) == {15}
    run.copy(5)
    run.drain()
    job.finish()


@pytest.mark.parametrize("placed", ["none", "one", "all"])
def test_a_crash_between_the_grant_and_the_record_of_the_places(job: Story, placed: str) -> None:
    crashed(job)
    run = LocalRun(job)
    run.recover()
    run.open()
    run.grant()
    if placed != "none":
        run.place(*partitions_of(job)[: 1 if placed == "one" else 2])
    run.close()
    if placed == "none":
        reset(job, 3)  # has no effect: the document is exact
    again = LocalRun(job)
    assert again.start().document.offsets == run.offsets
    again.drain()
    job.finish()


def test_a_group_that_was_reset_has_its_offsets_back_with_the_next_commit(job: Story) -> None:
    run = LocalRun(job)
    run.start()
    run.copy(10)
    reset(job, 3)
    run.copy(5)
    run.close()
    again = LocalRun(job)
    assert set(again.start().document.offsets.values()) == {15}
    again.drain()
    job.finish()


def test_a_group_that_was_reset_before_a_crash_stops_the_job_until_a_person_decides(job: Story) -> None:
    run = crashed(job)
    document = job.document
    reset(job, 3)
    for _ in range(2):
        with pytest.raises(GroupOffsetsMoved, match="somebody else has set"):
            LocalRun(job).recover()
    job.restore = Restore(checkpoint=document.checkpoint_id, nonce=1)
    job.expect_again(repeated(job, document, run))
    again = LocalRun(job)
    assert again.start().document.offsets == document.offsets
    again.drain()
    job.finish()


def test_a_restore_that_crashes_before_its_grant_is_served_once(job: Story) -> None:
    run = crashed(job)
    document = job.document
    job.restore = Restore(checkpoint=document.checkpoint_id, nonce=1)
    job.expect_again(repeated(job, document, run))
    LocalRun(job).recover()
    again = LocalRun(job)
    assert again.start().document.offsets == document.offsets
    again.drain()
    job.finish()


def test_a_group_that_is_gone_stops_the_job_after_a_crash_alone(job: Story) -> None:
    run = LocalRun(job)
    run.start()
    run.copy(10)
    run.drain()
    job.forget_group_offsets()
    LocalRun(job).recover()  # dies before its grant
    again = LocalRun(job)
    assert set(again.start().document.offsets.values()) == {10}
    again.copy(3)
    again.close()
    job.forget_group_offsets()
    with pytest.raises(GroupOffsetsMissing):
        LocalRun(job).recover()


def test_an_earlier_document_of_the_attempt_repeats_nothing(job: Story) -> None:
    run = LocalRun(job)
    run.start()
    earlier = job.store.read().text
    assert earlier is not None
    run.copy(10)
    run.record()
    run.copy(5)
    run.close()
    put_back(job, earlier)
    again = LocalRun(job)
    assert again.start().document.offsets == run.offsets
    again.drain()
    job.finish()


@pytest.mark.parametrize("records", [0, 2])
def test_an_earlier_document_of_an_earlier_attempt_stops_the_job(job: Story, records: int) -> None:
    crashed(job)
    earlier = job.store.read().text
    assert earlier is not None
    run = LocalRun(job)
    run.start()
    for _ in range(records):
        run.copy(3)
        run.record()
    run.copy(3)
    run.close()
    put_back(job, earlier)
    with pytest.raises((StateRolledBack, StateUncertain)) as caught:
        LocalRun(job).recover()
    assert caught.type is StateRolledBack


def test_a_deleted_job_leaves_no_subtask_that_can_write(job: Story, tmp_path: Path) -> None:
    """Its last attempt resumes nothing, so a group that is gone does not stop it."""
    each, other = partitions_of(job)
    frozen = crashed(job)
    frozen.write(each, 5)
    reset(job, 3)
    last = settle(job.last_attempt(), store=job.store, retained=job.retained, credentials=tmp_path)
    assert (last.outcome, last.reason) == (AttemptOutcome.DRAINED, SETTLED), last.message
    assert job.open_transactions() == []
    for act in (lambda: frozen.commit(each), lambda: frozen.copy(5, other)):
        with pytest.raises(TransactionFenced):
            act()


def test_a_deleted_topic_is_no_obstacle(job: Story, make_topic: Callable[..., str]) -> None:
    """The brokers forget the group's offsets of it."""
    run = LocalRun(job)
    run.recover()
    gone = TopicPartition(make_topic(1, "gone"), 0)
    run.offsets[gone] = 0
    run.open()
    run.grant()
    run.place()
    run.placed()
    run.close()
    admin = AdminClient({"bootstrap.servers": job.bootstrap})
    admin.delete_topics([gone.topic])[gone.topic].result(30)
    again = LocalRun(job)
    assert again.recover().document.offsets[gone] == 0
    again.close()
