"""Group P: EndTxn by the triple, against a real coordinator; FlinkKafkaInternalProducerITCase restated."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.clients.transactions.states import TransactionState
from sparkapp.dataplane.batch import open_producer
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, EndTxnAnswer, offset_mark
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import KafkaCommitter, MarkedOffsets
from sparkapp.sink.producers.producer_pool import ProducerPool
from tests.support.jobs.sink_harness import JOB_UID, mark_starts
from tests.support.kafka.end_txn import end_txn

ROW = pa.RecordBatch.from_pydict({"value": [b"42"]})


@pytest.fixture
def pool(topic_scope):
    opened = ProducerPool(
        open_producer=open_producer,
        client=topic_scope.client,
        config={"bootstrap.servers": topic_scope.bootstrap, "transaction.timeout.ms": "60000"},
        scope=LogScope(topics=frozenset([topic_scope.topic])),
    )
    yield opened
    opened.close()


def written(pool, transactional_id, topic):
    """A flushed, open transaction of one record; gives its triple."""
    entry = pool.begin(transactional_id)
    entry.producer.produce(ROW, topic=topic)
    assert entry.producer.flush(30) == 1
    return transactional_id, entry.producer_id, entry.producer_epoch


def committable(triple, **more):
    transactional_id, producer_id, producer_epoch = triple
    return KafkaCommittable(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        checkpoint_id=1,
        subtask=0,
        records=1,
        **more,
    )


def test_P01_twenty_ids_in_turn(pool, topic_scope):
    for number in range(1, 21):
        triple = written(pool, f"{topic_scope.prefix}-{number}", topic_scope.topic)
        assert end_txn(topic_scope.client, *triple, number % 2 == 0) is EndTxnAnswer.NONE
        topic_scope.await_ended()
        assert len(topic_scope.client.list_transactions(topic_scope.prefix)) == number
        assert len(topic_scope.records()) == number // 2
    assert topic_scope.open_transactions() == []


def test_P02_commit_after_the_writing_process_was_killed(topic_scope):
    program = """
import os, signal, sys
from confluent_kafka import Producer
from sparkapp.clients.transactions.client import TransactionClient
bootstrap, topic, transactional_id = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
producer.init_transactions(30)
found = TransactionClient({"bootstrap.servers": bootstrap}).describe([transactional_id])[transactional_id]
producer.begin_transaction()
producer.produce(topic, b"42")
assert producer.flush(30) == 0
print(found.producer_id, found.producer_epoch, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    arguments = [topic_scope.bootstrap, topic_scope.topic, f"{topic_scope.prefix}-0"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == -9, ended.stderr
    producer_id, producer_epoch = map(int, ended.stdout.split())
    assert (
        end_txn(topic_scope.client, f"{topic_scope.prefix}-0", producer_id, producer_epoch, True) is EndTxnAnswer.NONE
    )
    assert topic_scope.open_transactions() == []
    assert topic_scope.records() == [b"42"]


def test_P03_commit_of_a_transaction_without_records_fails(pool, topic_scope):
    entry = pool.begin(f"{topic_scope.prefix}-0")
    answer = end_txn(topic_scope.client, f"{topic_scope.prefix}-0", entry.producer_id, entry.producer_epoch, True)
    assert answer is EndTxnAnswer.INVALID_TXN_STATE


def test_P04_double_commit(pool, topic_scope):
    triple = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    assert end_txn(topic_scope.client, *triple, True) is EndTxnAnswer.NONE
    topic_scope.await_ended()
    assert end_txn(topic_scope.client, *triple, True) is EndTxnAnswer.NONE
    assert topic_scope.records() == [b"42"]


def test_P04_commit_while_the_first_one_is_still_writing_markers(pool, topic_scope):
    triple = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    settled = [KafkaCommitter(topic_scope.client, None).commit([committable(triple)])[0] for _ in range(3)]
    assert [each.outcome for each in settled] == [CommitOutcome.COMMITTED] * 3
    topic_scope.await_ended()
    assert topic_scope.records() == [b"42"]


def test_P05_double_abort(pool, topic_scope):
    triple = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    assert end_txn(topic_scope.client, *triple, False) is EndTxnAnswer.NONE
    topic_scope.await_ended()
    assert end_txn(topic_scope.client, *triple, False) is EndTxnAnswer.NONE
    assert topic_scope.records() == []


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_P06_P07_the_opposite_end_is_refused(pool, first, second, topic_scope):
    triple = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    assert end_txn(topic_scope.client, *triple, first) is EndTxnAnswer.NONE
    topic_scope.await_ended()
    assert end_txn(topic_scope.client, *triple, second) is EndTxnAnswer.INVALID_TXN_STATE
    assert topic_scope.records() == ([b"42"] if first else [])


@pytest.mark.parametrize("commit", [True, False])
def test_P08_another_producer_of_the_id_came_first(pool, commit, topic_scope):
    triple = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    other = open_producer(
        {
            "bootstrap.servers": topic_scope.bootstrap,
            "transactional.id": f"{topic_scope.prefix}-0",
            "transaction.timeout.ms": "60000",
        }
    )
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(ROW, topic=topic_scope.topic)
    assert other.flush(30) == 1
    assert end_txn(topic_scope.client, *triple, commit) is EndTxnAnswer.PRODUCER_FENCED
    other.close()
    topic_scope.commit(f"{topic_scope.prefix}-0")
    topic_scope.await_ended()
    assert topic_scope.records() == [b"42"], "the other one's"
    # The pool is as good as before, under another id and under the same one.
    for transactional_id in (f"{topic_scope.prefix}-1", f"{topic_scope.prefix}-0"):
        assert (
            end_txn(topic_scope.client, *written(pool, transactional_id, topic_scope.topic), True) is EndTxnAnswer.NONE
        )
    topic_scope.await_ended()
    assert len(topic_scope.records()) == 3
    assert topic_scope.open_transactions() == []


def test_P09_unknown_id(topic_scope):
    assert (
        end_txn(topic_scope.client, f"{topic_scope.prefix}-7", 1234, 0, True)
        is EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING
    )


def test_P09_other_producer_id(pool, topic_scope):
    transactional_id, producer_id, epoch = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    answer = end_txn(topic_scope.client, transactional_id, producer_id + 10_000, epoch, True)
    assert answer is EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING
    assert topic_scope.open_transactions() == [f"{topic_scope.prefix}-0"]
    assert topic_scope.records() == []


def test_P10_previous_epoch(pool, topic_scope):
    written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    pool.drop(f"{topic_scope.prefix}-0")
    transactional_id, producer_id, epoch = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    assert epoch > 0
    assert end_txn(topic_scope.client, transactional_id, producer_id, epoch - 1, True) is EndTxnAnswer.PRODUCER_FENCED
    assert topic_scope.open_transactions() == [f"{topic_scope.prefix}-0"]
    assert topic_scope.records() == []
    assert end_txn(topic_scope.client, transactional_id, producer_id, epoch, True) is EndTxnAnswer.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_the_start_of_an_ended_transaction_is_known_until_the_next_producer(pool, topic_scope, commit):
    """What proves later how a transaction ended."""

    def described():
        found = topic_scope.client.describe([f"{topic_scope.prefix}-0"])[f"{topic_scope.prefix}-0"]
        return (found.producer_id, found.producer_epoch), found.start_time_ms

    triple = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
    first = described()
    assert first[1] > 0
    end_txn(topic_scope.client, *triple, commit)
    topic_scope.await_ended()
    assert described() == first
    pool.begin(f"{topic_scope.prefix}-0")
    assert described()[1] == -1, "nothing of an earlier producer is left"


@pytest.mark.parametrize("proven", [True, False])
def test_P11_a_transaction_older_than_its_timeout_is_reported_as_lost(make_topic, proven, topic_scope):
    source = make_topic(name="in")
    pool = ProducerPool(
        open_producer=open_producer,
        client=topic_scope.client,
        config={"bootstrap.servers": topic_scope.bootstrap, "transaction.timeout.ms": "5000"},
        scope=LogScope(topics=frozenset([topic_scope.topic])),
    )
    entry = pool.begin(f"{topic_scope.prefix}-0")
    entry.producer.produce(ROW, topic=topic_scope.topic)
    split = KafkaPartitionSplit(TopicPartition(source, 0), 0, 5)
    mark_starts(topic_scope.bootstrap, topic_scope.prefix, [split], 0)
    mark = offset_mark(JOB_UID, 1, 1)
    entry.producer.send_offsets({split.partition: split.stop}, group_id=topic_scope.prefix, metadata=mark, timeout=30)
    assert entry.producer.flush(30) == 1
    pool.close()
    deadline = Deadline.after(40)
    while (
        topic_scope.client.describe([f"{topic_scope.prefix}-0"])[f"{topic_scope.prefix}-0"].state
        is not TransactionState.COMPLETE_ABORT
    ):
        assert not deadline.expired
    found = end_txn(topic_scope.client, f"{topic_scope.prefix}-0", entry.producer_id, entry.producer_epoch, True)
    assert found is EndTxnAnswer.PRODUCER_FENCED
    triple = (f"{topic_scope.prefix}-0", entry.producer_id, entry.producer_epoch)
    each = committable(triple, attempt=1, ranges=(split,) if proven else ())
    evidence = GroupOffsetsEvidence({"bootstrap.servers": topic_scope.bootstrap}, group_id=topic_scope.prefix)
    marked = MarkedOffsets(offsets=evidence, job_uid=JOB_UID)
    (settled,) = KafkaCommitter(topic_scope.client, marked).commit([each])
    assert settled.outcome is (CommitOutcome.LOST if proven else CommitOutcome.UNCERTAIN)
    assert settled.answer is EndTxnAnswer.PRODUCER_FENCED
    assert topic_scope.records() == []
    assert topic_scope.open_transactions() == []


def test_P12_end_txn_never_exceeds_version_4(pool, monkeypatch, topic_scope):
    from kafka.protocol.producer.transaction import EndTxnRequest

    sent = []
    send = topic_scope.client._connection.send

    async def watched(request, node, deadline):
        sent.append(request)
        return await send(request, node, deadline)

    monkeypatch.setattr(topic_scope.client._connection, "send", watched)
    for _ in range(3):
        triple = written(pool, f"{topic_scope.prefix}-0", topic_scope.topic)
        assert end_txn(topic_scope.client, *triple, True) is EndTxnAnswer.NONE
        topic_scope.await_ended()
        after = topic_scope.client.describe([f"{topic_scope.prefix}-0"])[f"{topic_scope.prefix}-0"]
        assert (after.producer_id, after.producer_epoch) == triple[1:], "version 5 would have bumped the epoch"
    versions = [each.API_VERSION for each in sent if isinstance(each, EndTxnRequest)]
    assert len(versions) == 3
    assert max(versions) <= 4
    assert topic_scope.client._connection.offered_version(EndTxnRequest) >= 5, "the broker offers more"
    assert topic_scope.records() == [b"42"] * 3
