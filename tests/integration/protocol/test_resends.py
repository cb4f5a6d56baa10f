"""What librdkafka does when an answer is lost, and what an earlier request does that arrives late.

A subtask that commits its own transactions may keep its producer only while each TxnOffsetCommit and EndTxn was sent
once. ADR 45 has the counts.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.model.partition import TopicPartition
from tests.support.kafka.late_requests import END_TXN, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT
from tests.support.native.counting_producer import ClientRefusal, CountingProducer

pytestmark = pytest.mark.broker

ONCE = {END_TXN: 1, TXN_OFFSET_COMMIT: 1}


@pytest.fixture
def open_producer(way, topic_scope):
    made = []

    def fresh():
        made.append(
            CountingProducer(
                {"bootstrap.servers": way.address, "transactional.id": topic_scope.prefix, "socket.timeout.ms": "2000"}
            )
        )
        made[-1].init_transactions()
        return made[-1]

    yield fresh
    for producer in made:
        producer.close()


def commit(producer, topic_scope, number):
    """One transaction: a record, and its number as the group's offset."""
    before = dict(producer.sent)
    producer.begin()
    producer.produce(topic_scope.topic, str(number).encode())
    producer.flush()
    producer.send_offset(topic_scope.topic, number, group=topic_scope.prefix)
    producer.commit()
    return {key: producer.sent[key] - before.get(key, 0) for key in ONCE}


def group_offset(topic_scope):
    source = TopicPartition(topic_scope.topic, 0)
    known = {"bootstrap.servers": topic_scope.bootstrap}
    evidence = GroupOffsetsEvidence(known, group_id=topic_scope.prefix)
    found = evidence.committed([source])
    return found[source].offset if found else None


@pytest.mark.parametrize("api_key", ONCE, ids=["EndTxn", "TxnOffsetCommit"])
@pytest.mark.parametrize("lost", ["request", "answer", "answer-in-time"])
def test_every_resend_is_counted(open_producer, way, topic_scope, api_key, lost):
    producer = open_producer()
    commit(producer, topic_scope, 1)  # A new broker makes its own topics first, and asks for requests again.
    if lost == "request":
        way.withhold(api_key)
    else:
        way.swallow(api_key, end=lost == "answer")
    assert commit(producer, topic_scope, 2) == {**ONCE, api_key: 2}
    assert commit(producer, topic_scope, 3) == ONCE
    assert group_offset(topic_scope) == 3


@pytest.mark.parametrize("kept", [True, False], ids=["same producer", "new producer"])
def test_a_late_commit_ends_a_later_transaction_of_the_same_producer(open_producer, way, topic_scope, kept):
    producer = open_producer()
    way.withhold(END_TXN)
    commit(producer, topic_scope, 1)
    producer = producer if kept else open_producer()
    producer.begin()
    producer.produce(topic_scope.topic, b"2")
    producer.flush()
    way.deliver()
    topic_scope.await_ended()
    assert topic_scope.numbers() == ([1, 2] if kept else [1])
    assert group_offset(topic_scope) == 1, "an attempt that starts now reads the second record again"
    producer.send_offset(topic_scope.topic, 2, group=topic_scope.prefix)
    producer.commit()
    assert (topic_scope.numbers(), group_offset(topic_scope)) == ([1, 2], 2)


@pytest.mark.parametrize("kept", [True, False], ids=["same producer", "new producer"])
def test_a_late_offset_replaces_that_of_a_later_transaction_of_the_same_producer(open_producer, way, topic_scope, kept):
    producer = open_producer()
    way.withhold(TXN_OFFSET_COMMIT)
    commit(producer, topic_scope, 1)
    producer = producer if kept else open_producer()
    producer.begin()
    producer.produce(topic_scope.topic, b"2")
    producer.send_offset(topic_scope.topic, 2, group=topic_scope.prefix)
    way.deliver()
    producer.commit()
    assert topic_scope.numbers() == [1, 2]
    assert group_offset(topic_scope) == (1 if kept else 2)


@pytest.mark.parametrize("moment", ["idle", "writing"])
def test_a_fenced_producer_stays_fenced(open_producer, topic_scope, moment):
    producer = open_producer()
    commit(producer, topic_scope, 1)
    if moment == "writing":
        producer.begin()
        producer.produce(topic_scope.topic, b"2")
        producer.flush()
    topic_scope.client.fence_all([topic_scope.prefix])
    initialised = producer.sent[INIT_PRODUCER_ID]
    if moment == "idle":
        producer.begin()
    calls = [
        lambda: producer.send_offset(topic_scope.topic, 3, group=topic_scope.prefix), producer.commit, producer.abort,
        producer.begin, producer.init_transactions, producer.begin, producer.commit,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ClientRefusal, match="fatal"):
            call()
    assert producer.sent[INIT_PRODUCER_ID] == initialised, "it does not take the id back"
    assert topic_scope.open_transactions() == []
    assert (topic_scope.numbers(), group_offset(topic_scope)) == ([1], 1)


def test_an_offset_is_lost_with_a_group_that_is_deleted_before_the_commit(open_producer, topic_scope):
    """The records become visible without it; the next commit brings it back."""
    producer = open_producer()
    commit(producer, topic_scope, 1)
    producer.begin()
    producer.produce(topic_scope.topic, b"2")
    producer.flush()
    producer.send_offset(topic_scope.topic, 2, group=topic_scope.prefix)
    admin = AdminClient({"bootstrap.servers": topic_scope.bootstrap})
    admin.delete_consumer_groups([topic_scope.prefix])[topic_scope.prefix].result(20)
    producer.commit()
    topic_scope.await_ended()
    assert (topic_scope.numbers(), group_offset(topic_scope)) == ([1, 2], None)
    commit(producer, topic_scope, 3)
    assert group_offset(topic_scope) == 3
