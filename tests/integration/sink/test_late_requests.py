"""A request that was sent again, and whose first try reaches its broker when its transactional id is in use again."""

from __future__ import annotations

import pytest

from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, GroupOffset, offset_mark
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from tests.support.jobs.sink_harness import JOB_UID
from tests.support.kafka.late_requests import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
)

pytestmark = pytest.mark.broker


@pytest.fixture
def source(make_topic):
    return TopicPartition(make_topic(name="in"), 0)


@pytest.fixture
def subtask(harness, way, topic_scope):
    """A subtask with two ids: checkpoints 1 and 3 write under the same one."""
    return harness(bootstrap=way.address, pool_size=2, group_id=topic_scope.prefix).open()


def complete(subtask, number, source):
    subtask.write(number)
    subtask.snapshot(number, ranges=(KafkaPartitionSplit(source, number - 1, number),))
    return [each.outcome for each in subtask.notify(number)]


def test_a_late_commit_ends_no_later_transaction(subtask, way, topic_scope, source):
    way.withhold(END_TXN)
    assert complete(subtask, 1, source) == [CommitOutcome.COMMITTED]
    assert way.withheld == 1, "the driver has sent its commit again"
    complete(subtask, 2, source)
    subtask.write(3)
    topic_scope.await_written(3)
    way.deliver()
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 2], "checkpoint 3 is half written"
    subtask.snapshot(3, ranges=(KafkaPartitionSplit(source, 2, 3),))
    assert [each.outcome for each in subtask.notify(3)] == [CommitOutcome.COMMITTED]
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1, 2, 3]


def test_a_worker_commits_nothing_so_no_commit_of_a_worker_can_be_late(subtask, way, topic_scope, source):
    for number in (1, 2, 3, 4, 5):
        complete(subtask, number, source)
    assert way.seen[END_TXN] == 5, "one by the driver for each checkpoint"
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1, 2, 3, 4, 5]


def test_a_late_offset_commit_moves_no_offset_of_a_later_transaction(subtask, way, topic_scope, source):
    evidence = GroupOffsetsEvidence({"bootstrap.servers": topic_scope.bootstrap}, group_id=topic_scope.prefix)
    way.withhold(TXN_OFFSET_COMMIT)
    complete(subtask, 1, source)
    assert way.withheld == 1, "the client has sent the offsets again"
    complete(subtask, 2, source)
    subtask.write(3)
    subtask.snapshot(3, ranges=(KafkaPartitionSplit(source, 2, 3),))
    way.deliver()
    subtask.notify(3)
    topic_scope.await_ended()
    assert evidence.committed([source]) == {source: GroupOffset(3, offset_mark(JOB_UID, 1, 3))}
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1, 2, 3]


def test_a_late_offset_commit_sets_the_group_back_until_the_next_checkpoint(harness, way, topic_scope, source):
    """A limit of ADR 50: checkpoint 2 is pre-committed while checkpoint 1 is open and its epoch valid.

    The transaction's coordinator outweighs the older mark, so nothing is written again."""
    subtask = harness(bootstrap=way.address, pool_size=3, group_id=topic_scope.prefix).open()
    evidence = GroupOffsetsEvidence({"bootstrap.servers": topic_scope.bootstrap}, group_id=topic_scope.prefix)
    way.withhold(TXN_OFFSET_COMMIT)
    for number in (1, 2):
        subtask.write(number)
        state = subtask.snapshot(number, ranges=(KafkaPartitionSplit(source, number - 1, number),))
    assert way.withheld == 1, "the client has sent the offsets of checkpoint 1 again"
    way.deliver()
    subtask.notify(1)
    subtask.notify(2)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 2]
    assert evidence.committed([source]) == {source: GroupOffset(1, offset_mark(JOB_UID, 1, 1))}
    again = harness(pool_size=3, group_id=topic_scope.prefix).open(state)
    assert [each.outcome for each in again.settled] == [CommitOutcome.COMMITTED] * 2
    complete(again, 3, source)
    assert evidence.committed([source]) == {source: GroupOffset(3, offset_mark(JOB_UID, 1, 3))}
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1, 2, 3]


@pytest.mark.parametrize("api_key", [ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN])
@pytest.mark.parametrize("turn", ["before", "within"])
def test_what_a_late_request_opens_ends_when_the_id_is_used_again(harness, way, topic_scope, api_key, turn):
    subtask = harness(bootstrap=way.address, pool_size=2, group_id=topic_scope.prefix).open()
    source = TopicPartition(topic_scope.topic, 0)
    way.withhold(api_key)
    complete(subtask, 1, source)
    assert way.withheld == 1, "the client has sent it again"
    complete(subtask, 2, source)
    if turn == "before":
        way.deliver()
        assert topic_scope.open_transactions() == [f"{topic_scope.prefix}-1"], "a transaction without records"
    subtask.write(3)
    way.deliver()
    subtask.snapshot(3, ranges=(KafkaPartitionSplit(source, 2, 3),))
    assert [each.outcome for each in subtask.notify(3)] == [CommitOutcome.COMMITTED]
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1, 2, 3]
