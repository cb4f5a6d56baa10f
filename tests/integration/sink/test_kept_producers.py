"""A producer is used again where no request of its last transaction can come late, and nowhere else (ADR 62)."""

from __future__ import annotations

import time

import pytest

from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, GroupOffset, offset_mark
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import TransactionFenced
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.pre_commit_check import PreCommitCheck
from tests.support.jobs.sink_harness import JOB_UID
from tests.support.kafka.late_requests import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
)

pytestmark = pytest.mark.broker

POOL = 2


@pytest.fixture
def source(make_topic):
    return TopicPartition(make_topic(name="in"), 0)


@pytest.fixture
def subtask(harness, way, topic_scope):
    """A subtask with two ids that keeps its producers: checkpoints 1 and 3 write under the same id."""
    return harness(bootstrap=way.address, pool_size=POOL, group_id=topic_scope.prefix, keeps=True).open()


class Job:
    """Checkpoints of one record each."""

    def __init__(self, subtask, source):
        self.subtask = subtask
        self.source = source
        self.written = 0

    def pre_commit(self):
        """Of the next checkpoint; returns the epoch of its transaction."""
        self.written += 1
        self.subtask.write(self.written)
        ranges = (KafkaPartitionSplit(self.source, self.written - 1, self.written),)
        self.last = self.subtask.snapshot(self.written, ranges=ranges).pending[-1]
        return self.last.producer_epoch

    def complete(self):
        """The next checkpoint, to its end; returns the epoch of its transaction."""
        epoch = self.pre_commit()
        assert [each.outcome for each in self.subtask.notify(self.written)] == [CommitOutcome.COMMITTED]
        return epoch


@pytest.fixture
def job(subtask, source):
    """It uses its producers again: a new broker has requests sent again, before which none is kept."""
    opened = Job(subtask, source)
    epochs = [opened.complete() for _ in range(POOL)]
    for _ in range(10):
        before, epochs = epochs, [opened.complete() for _ in range(POOL)]
        if epochs == before:
            return opened
    raise AssertionError(epochs)


def expect_all(job, topic_scope):
    """Each record once, the group's offset behind the last, nothing open."""
    topic_scope.await_ended()
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == list(range(1, job.written + 1))
    evidence = GroupOffsetsEvidence({"bootstrap.servers": topic_scope.bootstrap}, group_id=topic_scope.prefix)
    mark = offset_mark(JOB_UID, 1, job.subtask._checkpoint_id - 1)
    assert evidence.committed([job.source]) == {job.source: GroupOffset(job.written, mark)}


def test_W03_a_producer_is_used_again(job, way, topic_scope):
    opened = way.seen[INIT_PRODUCER_ID]
    epochs = [job.complete() for _ in range(6 * POOL)]
    assert way.seen[INIT_PRODUCER_ID] == opened
    assert all(len(set(epochs[slot::POOL])) == 1 for slot in range(POOL))
    assert job.subtask.pool.live == POOL
    expect_all(job, topic_scope)


@pytest.mark.parametrize("sender", ["driver", "worker"])
def test_W04_a_late_commit_ends_no_later_transaction(job, way, topic_scope, sender):
    before = job.pre_commit()
    if sender == "driver":
        way.withhold(END_TXN)
        job.subtask.notify(job.written)
        job.complete()
    else:
        job.subtask.notify(job.written)
        job.complete()
        way.withhold(END_TXN)  # the next is the worker's, before its producer begins another transaction
    job.written += 1
    job.subtask.write(job.written)
    assert way.withheld == 1, "it was sent again"
    way.deliver()
    topic_scope.await_ended()
    assert topic_scope.numbers() == list(range(1, job.written)), "the last is half written"
    ranges = (KafkaPartitionSplit(job.source, job.written - 1, job.written),)
    assert job.subtask.snapshot(job.written, ranges=ranges).pending[-1].producer_epoch > before
    job.subtask.notify(job.written)
    expect_all(job, topic_scope)


def test_W04_late_offsets_change_no_later_transaction(job, way, topic_scope):
    way.withhold(TXN_OFFSET_COMMIT)
    before = job.complete()
    assert way.withheld == 1
    job.complete()
    assert job.pre_commit() > before
    way.deliver()
    job.subtask.notify(job.written)
    expect_all(job, topic_scope)


@pytest.mark.parametrize("api_key", [ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN])
@pytest.mark.parametrize("turn", ["before", "within"])
def test_what_a_late_request_opens_ends_with_the_next_turn_of_its_producer(job, way, topic_scope, api_key, turn):
    way.withhold(api_key)
    job.complete()
    assert way.withheld == 1, "the client has sent it again"
    if turn == "before":
        way.deliver()
    job.complete()
    job.pre_commit()
    if turn == "within":
        way.deliver()
    job.subtask.notify(job.written)
    job.complete()
    job.complete()
    expect_all(job, topic_scope)


def test_W04_another_producer_of_the_id_makes_the_kept_one_useless(job, topic_scope):
    before = job.complete()
    job.complete()
    topic_scope.client.fence_all(f"{topic_scope.prefix}-{slot}" for slot in range(POOL))
    assert job.complete() > before
    expect_all(job, topic_scope)


def test_another_try_of_a_checkpoint_does_not_commit_the_first(job, topic_scope):
    """The first was pre-committed, and its answer was lost: no document names it."""
    before = job.pre_commit()
    assert job.subtask.pool.live == POOL
    job.subtask._pending.clear()
    job.subtask._checkpoint_id -= 1
    job.written -= 1
    assert job.pre_commit() > before
    assert topic_scope.numbers() == list(range(1, job.written)), "neither is committed"
    job.subtask.notify(job.written)
    expect_all(job, topic_scope)


@pytest.mark.parametrize("is_ahead", [True, False], ids=["ready ahead", "kept"])
def test_a_producer_that_the_sweep_has_retired_is_not_used_again(job, topic_scope, is_ahead):
    """The sweep ends a transaction by its triple, and the request may come late."""
    before = job.complete()
    job.complete()
    if is_ahead:
        job.subtask.pool.prepare(f"{topic_scope.prefix}-{(job.written + 1) % POOL}")
    known = job.subtask.reusable.of_subtask(0).items()
    job.subtask.reusable.retire([(each, last.producer_id, last.producer_epoch) for each, last in known])
    job.subtask.writer.notify_committed(job.written, reusable=job.subtask.reusable.of_subtask(0))
    assert job.complete() > before
    expect_all(job, topic_scope)


@pytest.mark.parametrize("has_transaction", [True, False])
def test_a_lost_try_is_not_committed_where_another_completed_its_checkpoint(
    job, harness, way, topic_scope, has_transaction
):
    """Its answer was lost, and the other process had no records where its transform is not deterministic."""
    job.pre_commit()
    lost = job.subtask._pending.popitem()[1]
    job.written -= 1
    if has_transaction:
        other = harness(bootstrap=way.address, pool_size=POOL, group_id=topic_scope.prefix).open()
        other._checkpoint_id = job.subtask._checkpoint_id - 1
        job.written += 1
        other.write(job.written)
        ranges = (KafkaPartitionSplit(job.source, job.written - 1, job.written),)
        other.snapshot(job.written, ranges=ranges)
        assert [each.outcome for each in other.notify(job.written)] == [CommitOutcome.COMMITTED]
        (again,) = other.reusable.of_subtask(0).items()
        job.subtask.reusable._of[0].update([again])
    settled = job.subtask._checkpoint_id - 1
    job.subtask.writer.notify_committed(settled, reusable=job.subtask.reusable.of_subtask(0))
    job.complete()
    assert job.complete() > lost.producer_epoch
    expect_all(job, topic_scope)


def test_a_transaction_that_ends_behind_its_noted_start_is_in_no_document(job, topic_scope):
    """The pre-commit has not asked again, and the driver's look finds it."""
    job.pre_commit()
    assert job.last.start_time_ms > 0
    topic_scope.client.fence_all([job.last.transactional_id])
    with pytest.raises(TransactionFenced, match="its coordinator now says"):
        PreCommitCheck(topic_scope.client).require([job.last], began=time.monotonic())
    topic_scope.await_ended()
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == list(range(1, job.written))
