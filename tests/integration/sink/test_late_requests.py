"""A request that was sent again, and whose first try reaches its broker when its transactional id is in use again."""

from __future__ import annotations

import pytest

from sparkapp.model.partition import TopicPartition
from sparkapp.model.settlement import GroupOffset, offset_mark
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.sink.committer import Outcome
from sparkapp.sink.witness import GroupOffsetsWitness
from tests.support.harness import JOB_UID
from tests.support.late_requests import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    LateRequests,
)

pytestmark = pytest.mark.broker


@pytest.fixture
def way(broker):
    opened = LateRequests(broker)
    yield opened
    opened.close()


@pytest.fixture
def source(make_topic):
    return TopicPartition(make_topic(name="in"), 0)


@pytest.fixture
def subtask(harness, way, site):
    """A subtask with two ids: checkpoints 1 and 3 write under the same one."""
    return harness(bootstrap=way.address, pool_size=2, group_id=site.prefix).open()


def complete(subtask, number, source):
    subtask.write(number)
    subtask.snapshot(number, ranges=(KafkaPartitionSplit(source, number - 1, number),))
    return [one.outcome for one in subtask.notify(number)]


def test_a_late_commit_ends_no_later_transaction(subtask, way, site, source):
    way.withhold(END_TXN)
    assert complete(subtask, 1, source) == [Outcome.COMMITTED]
    assert way.withheld == 1, "the driver has sent its commit again"
    complete(subtask, 2, source)
    subtask.write(3)
    site.await_written(3)
    way.deliver()
    site.await_ended()
    assert site.numbers() == [1, 2], "checkpoint 3 is half written"
    subtask.snapshot(3, ranges=(KafkaPartitionSplit(source, 2, 3),))
    assert [one.outcome for one in subtask.notify(3)] == [Outcome.COMMITTED]
    assert site.open_transactions() == []
    assert site.numbers() == [1, 2, 3]


def test_a_worker_commits_nothing_so_no_commit_of_a_worker_can_be_late(subtask, way, site, source):
    for number in (1, 2, 3, 4, 5):
        complete(subtask, number, source)
    assert way.seen[END_TXN] == 5, "one by the driver for each checkpoint"
    assert site.open_transactions() == []
    assert site.numbers() == [1, 2, 3, 4, 5]


def test_a_late_offset_commit_moves_no_offset_of_a_later_transaction(subtask, way, site, source):
    witness = GroupOffsetsWitness({"bootstrap.servers": site.bootstrap}, group_id=site.prefix)
    way.withhold(TXN_OFFSET_COMMIT)
    complete(subtask, 1, source)
    assert way.withheld == 1, "the client has sent the offsets again"
    complete(subtask, 2, source)
    subtask.write(3)
    subtask.snapshot(3, ranges=(KafkaPartitionSplit(source, 2, 3),))
    way.deliver()
    subtask.notify(3)
    site.await_ended()
    assert witness.committed([source]) == {source: GroupOffset(3, offset_mark(JOB_UID, 1, 3))}
    assert site.open_transactions() == []
    assert site.numbers() == [1, 2, 3]


@pytest.mark.parametrize("api_key", [ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN])
@pytest.mark.parametrize("turn", ["before", "within"])
def test_what_a_late_request_opens_ends_when_the_id_is_used_again(harness, way, site, api_key, turn):
    subtask = harness(bootstrap=way.address, pool_size=2, group_id=site.prefix).open()
    source = TopicPartition(site.topic, 0)
    way.withhold(api_key)
    complete(subtask, 1, source)
    assert way.withheld == 1, "the client has sent it again"
    complete(subtask, 2, source)
    if turn == "before":
        way.deliver()
        assert site.open_transactions() == [f"{site.prefix}-1"], "a transaction without records"
    subtask.write(3)
    way.deliver()
    subtask.snapshot(3, ranges=(KafkaPartitionSplit(source, 2, 3),))
    assert [one.outcome for one in subtask.notify(3)] == [Outcome.COMMITTED]
    assert site.open_transactions() == []
    assert site.numbers() == [1, 2, 3]
