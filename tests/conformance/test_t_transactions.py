"""Group T: scripts of Flink's FlinkKafkaProducerITCase, on a real broker, ending in what a reader sees."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaSparkJobError, ProducersPoolEmpty, TransactionFenced
from tests.support.jobs.sink_harness import merged
from tests.support.kafka.visibility import numbers, open_transactions
from tests.support.kubernetes.api_client import await_that


def client_threads() -> Counter[str]:
    """The threads of this process that librdkafka has named; Python's own listing does not know of them."""
    found = Counter[str]()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # one that has just ended
            name = (thread / "comm").read_text().strip()
            if name.startswith("rdk:"):
                found[name] += 1
    return found


def test_T01_T08_restore_to_a_checkpoint_after_exceeding_the_pool(harness, topic_scope):
    first = harness().open()
    first.write(42)
    state = first.snapshot(0)
    first.write(43)
    first.notify(0)

    def snapshot_and_write() -> None:
        for label in range(1, 6):
            first.snapshot(label)
            first.write(42)

    with pytest.raises(ProducersPoolEmpty, match="Too many ongoing snapshots") as caught:
        snapshot_and_write()
    assert caught.value.reason == "ProducersPoolEmpty"
    second = harness().restore(state)
    assert [each.outcome for each in second.settled] == [CommitOutcome.COMMITTED]
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [42]
    second.close()


def test_T03_fail_before_notify_and_resume_work_afterwards(harness, topic_scope):
    first = harness().open()
    first.write(42)
    first.snapshot(0)
    first.write(43)
    state = first.snapshot(1)
    first.write(44)
    first.snapshot(2)
    first.write(45)
    # Not closed: a crash that leaves 44 pre-committed and 45 in an open transaction.
    second = harness().restore(state)
    second.write(46)
    second.snapshot(4)
    second.write(47)
    second.notify(4)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [42, 43, 46]
    assert len(topic_scope.open_transactions()) == 1, "47 is pending, 44 and 45 are aborted"
    with pytest.raises(TransactionFenced):
        first.snapshot(3)
    assert topic_scope.numbers() == [42, 43, 46]


def test_T04_T07_the_same_checkpoint_is_restored_twice(harness, topic_scope):
    first = harness().open()
    first.write(42)
    first.snapshot(0)
    first.write(43)
    state = first.snapshot(1)
    first.write(44)
    first.snapshot(2)
    first.write(45)
    second = harness().restore(state)
    assert [each.outcome for each in second.settled] == [CommitOutcome.COMMITTED] * 2
    second.write(46)
    second.snapshot(3)
    second.write(47)
    # Neither attempt has completed a checkpoint behind the restored one: nothing of theirs may be seen.
    third = harness().restore(state)
    assert [each.outcome for each in third.settled] == [CommitOutcome.COMMITTED] * 2, (
        "again, and nothing is written twice"
    )
    assert topic_scope.open_transactions() == []
    topic_scope.await_ended()
    assert topic_scope.numbers() == [42, 43]
    for previous in (first, second):
        with pytest.raises(TransactionFenced):
            previous.snapshot(9)
    third.write(48)
    third.snapshot(4)
    third.notify(4)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [42, 43, 48]


def test_A06_T05_scale_down_before_the_first_checkpoint(harness, topic_scope):
    writers = [harness(subtask, 5).open() for subtask in range(5)]
    for subtask, writer in enumerate(writers):
        writer.write(2 * subtask)
        writer.snapshot(0)
        writer.write(2 * subtask + 1)
    # No checkpoint completed, so nothing is restored: every one of the ten transactions lingers.
    assert len(topic_scope.open_transactions()) == 10
    last = harness(0, 1).open()
    assert len(last.aborted) == 10
    last.write(46)
    last.snapshot(4)
    last.write(47)
    last.notify(4)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [46]
    last.close()
    assert topic_scope.open_transactions() == []


def test_T06_rescaled_from_4_to_2_to_3_and_back_to_1(harness, topic_scope):
    """By the hint each attempt's ids are of its own or of a previous attempt that is settled before anybody writes."""
    state, number = None, 0
    for parallelism in (4, 2, 3, 1):
        writers = [harness(subtask, parallelism).open(state) for subtask in range(parallelism)]
        assert all(item.outcome is CommitOutcome.COMMITTED for item in writers[0].settled)
        states = []
        for writer in writers:
            writer.write(number)
            number += 1
            states.append(writer.snapshot(0))
            writer.write(1000 + number)  # of a checkpoint that is never completed
        used = [item.transactional_id for each in states for item in each.pending]
        assert len(set(used)) == parallelism, "no id is of two subtasks"
        state = merged(states)
    last = harness(0, 1).restore(state)
    assert topic_scope.open_transactions() == []
    topic_scope.await_ended()
    assert sorted(topic_scope.numbers()) == list(range(4 + 2 + 3 + 1))
    last.close()


def test_T09_migrate_from_at_least_once_to_exactly_once(harness, topic_scope):
    first = harness(delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).open()
    first.write(42)
    first.snapshot(0)
    first.write(43)
    first.notify(0)
    state = first.snapshot(1)
    first.write(44)
    first.pool.plain().flush(10)
    first.close()
    second = harness().restore(state)
    second.write(45)
    second.snapshot(2)
    second.write(46)
    second.notify(2)
    second.write(47)
    topic_scope.await_ended()
    # At-least-once records are visible as they come; 46 and 47 wait for their checkpoint.
    assert topic_scope.numbers() == [42, 43, 44, 45]
    assert len(topic_scope.open_transactions()) == 1


def test_T10_migrate_from_exactly_once_to_at_least_once(harness, topic_scope):
    first = harness().open()
    first.write(42)
    first.snapshot(0)
    first.write(43)
    first.notify(0)
    state = first.snapshot(1)
    first.write(44)
    second = harness(delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).restore(state)
    assert [each.outcome for each in second.settled] == [CommitOutcome.COMMITTED]
    assert len(second.aborted) == 1, "44 is in no checkpoint"
    second.write(45)
    assert second.snapshot(2).pending == ()
    second.write(46)
    second.notify(2)
    second.write(47)
    second.pool.plain().flush(10)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [42, 43, 45, 46, 47]
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("delivery_guarantee", list(DeliveryGuarantee))
def test_T14_resources_are_cleaned_up(harness, delivery_guarantee, topic_scope):
    before = client_threads()
    writer = harness(delivery_guarantee=delivery_guarantee).open()
    for label in range(2):
        writer.write(label)
        assert client_threads().total() > before.total(), "the writer has clients of its own"
        writer.snapshot(label)
        writer.notify(label)
    assert writer.pool.live == (0 if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE else 1)
    writer.close()
    assert writer.pool.live == 0
    assert topic_scope.open_transactions() == []
    await_that("the writer's threads have ended", lambda: client_threads() <= before)


def test_T15_a_recovered_triple_cannot_commit_a_later_transaction(harness, topic_scope):
    first = harness(pool_size=2).open()
    first.write(42)
    state = first.snapshot(1)
    first.notify(1)
    first.write(43)
    first.snapshot(2)
    # The third transaction would run on the first one's id and epoch while the document still names that triple.
    with pytest.raises(ProducersPoolEmpty):
        first.write(44)
    second = harness(pool_size=2).restore(state)
    assert [each.outcome for each in second.settled] == [CommitOutcome.COMMITTED]
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [42]


def test_T02_broker_failure_before_notify(tmp_path, unique):
    from confluent_kafka.admin import NewTopic

    from localcluster.kafka.broker import Broker
    from sparkapp.clients.transactions.client import TransactionClient
    from tests.support.jobs.sink_harness import Harness
    from tests.support.kafka.topics import create_topics

    with Broker.ephemeral(tmp_path) as broker:
        create_topics(broker.bootstrap, NewTopic("out", num_partitions=1, replication_factor=1))
        first = Harness(bootstrap=broker.bootstrap, topic="out", prefix=unique, timeout=12).open()
        first.write(42)
        first.snapshot(0)
        first.write(43)
        state = first.snapshot(1)
        broker.kill()

        def write_and_snapshot() -> None:
            first.write(44)
            first.snapshot(2)

        with pytest.raises(KafkaSparkJobError):
            write_and_snapshot()
        broker.start()
        second = Harness(bootstrap=broker.bootstrap, topic="out", prefix=unique).restore(state)
        client = TransactionClient({"bootstrap.servers": broker.bootstrap})
        assert open_transactions(client, unique) == []
        assert numbers(broker.bootstrap, "out") == [42, 43]
        for each in (first, second):
            each.kill()
        client.close()
