"""The product's own producer in the local pace: it commits, and tells where it may not be kept."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.dataplane.native.producer import NativeProducer
from sparkapp.model.errors import TransactionFenced
from sparkapp.model.partition import TopicPartition
from tests.support.kafka.late_requests import END_TXN, TXN_OFFSET_COMMIT

pytestmark = pytest.mark.broker

CALLS = {"EndTxn": END_TXN, "TxnOffsetCommit": TXN_OFFSET_COMMIT}


@pytest.fixture
def open_producer(way, topic_scope):
    made = []

    def fresh():
        made.append(
            NativeProducer(
                {"bootstrap.servers": way.address, "transactional.id": topic_scope.prefix, "socket.timeout.ms": "2000"}
            )
        )
        made[-1].init_transactions(60)
        return made[-1]

    yield fresh
    for producer in made:
        producer.close()


def commit(producer, topic_scope, number, *, records=True):
    producer.begin_transaction()
    if records:
        producer.produce(pa.record_batch({"value": [str(number)]}), topic=topic_scope.topic)
    source = TopicPartition(topic_scope.topic, 0)
    producer.send_offsets({source: number}, group_id=topic_scope.prefix, metadata="mark", timeout=60)
    if records:
        assert producer.flush(60) == 1
    return producer.commit_transaction(60)


def group_offset(topic_scope):
    source = TopicPartition(topic_scope.topic, 0)
    evidence = GroupOffsetsEvidence({"bootstrap.servers": topic_scope.bootstrap}, group_id=topic_scope.prefix)
    found = evidence.committed([source])
    return found[source].offset if found else None


def test_a_producer_is_kept_from_transaction_to_transaction(open_producer, topic_scope):
    producer = open_producer()
    commit(producer, topic_scope, 1)  # A new broker makes its own topics first, and asks for requests again.
    assert all(commit(producer, topic_scope, number) for number in range(2, 30))
    assert commit(producer, topic_scope, 30, records=False), "offsets alone"
    assert topic_scope.numbers() == list(range(1, 30))
    assert group_offset(topic_scope) == 30
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("lost", ["request", "answer", "answer-in-time"])
@pytest.mark.parametrize("name", CALLS)
def test_a_producer_is_not_kept_after_a_resend(open_producer, way, topic_scope, name, lost):
    producer = open_producer()
    commit(producer, topic_scope, 1)
    if lost == "request":
        way.withhold(CALLS[name])
    else:
        way.swallow(CALLS[name], end=lost == "answer")
    assert commit(producer, topic_scope, 2) is False
    assert (topic_scope.numbers(), group_offset(topic_scope)) == ([1, 2], 2), "committed all the same"


def test_a_fenced_producer_commits_nothing(open_producer, topic_scope):
    producer = open_producer()
    commit(producer, topic_scope, 1)
    topic_scope.client.fence_all([topic_scope.prefix])
    with pytest.raises(TransactionFenced):
        commit(producer, topic_scope, 2)
    assert (topic_scope.numbers(), group_offset(topic_scope)) == ([1], 1)
