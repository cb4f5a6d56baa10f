"""Group P: EndTxn by the triple, against a real coordinator; FlinkKafkaInternalProducerITCase restated."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.deadline import Deadline
from sparkapp.model.partition import TopicPartition
from sparkapp.model.settlement import EndTxnAnswer, offset_mark
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.native.batch import open_producer
from sparkapp.sink.committer import KafkaCommitter, Outcome
from sparkapp.sink.producer_pool import ProducerPool
from sparkapp.sink.transactions import TransactionState
from sparkapp.sink.witness import GroupOffsetsWitness
from tests.support.harness import JOB_UID, mark_starts

ROW = pa.RecordBatch.from_pydict({"value": [b"42"]})


@pytest.fixture
def pool(site):
    opened = ProducerPool(
        open_producer=open_producer,
        client=site.client,
        config={"bootstrap.servers": site.bootstrap, "transaction.timeout.ms": "60000"},
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


def test_P01_twenty_ids_in_turn(pool, site):
    for number in range(1, 21):
        triple = written(pool, f"{site.prefix}-{number}", site.topic)
        assert site.client.end_txn(*triple, number % 2 == 0) is EndTxnAnswer.NONE
        site.await_ended()
        assert len(site.client.list_transactions(site.prefix)) == number
        assert len(site.records()) == number // 2
    assert site.open_transactions() == []


def test_P02_commit_after_the_writing_client_is_closed(pool, site):
    triple = written(pool, f"{site.prefix}-0", site.topic)
    pool.close()
    assert site.open_transactions() == [f"{site.prefix}-0"]
    assert site.records() == []
    assert site.client.end_txn(*triple, True) is EndTxnAnswer.NONE
    assert site.open_transactions() == []
    assert site.records() == [b"42"]
    assert len(site.client.list_transactions(site.prefix)) == 1


def test_P02_commit_after_the_writing_process_was_killed(site):
    program = """
import os, signal, sys
from confluent_kafka import Producer
from sparkapp.sink.transaction_client import TransactionClient
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
    arguments = [site.bootstrap, site.topic, f"{site.prefix}-0"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == -9, ended.stderr
    producer_id, producer_epoch = map(int, ended.stdout.split())
    assert site.client.end_txn(f"{site.prefix}-0", producer_id, producer_epoch, True) is EndTxnAnswer.NONE
    assert site.open_transactions() == []
    assert site.records() == [b"42"]


def test_P03_commit_of_a_transaction_without_records_fails(pool, site):
    entry = pool.begin(f"{site.prefix}-0")
    answer = site.client.end_txn(f"{site.prefix}-0", entry.producer_id, entry.producer_epoch, True)
    assert answer is EndTxnAnswer.INVALID_TXN_STATE


def test_P04_double_commit(pool, site):
    triple = written(pool, f"{site.prefix}-0", site.topic)
    assert site.client.end_txn(*triple, True) is EndTxnAnswer.NONE
    site.await_ended()
    assert site.client.end_txn(*triple, True) is EndTxnAnswer.NONE
    assert site.records() == [b"42"]


def test_P04_commit_while_the_first_one_is_still_writing_markers(pool, site):
    triple = written(pool, f"{site.prefix}-0", site.topic)
    settled = [KafkaCommitter(site.client, None).commit([committable(triple)])[0] for _ in range(3)]
    assert [one.outcome for one in settled] == [Outcome.COMMITTED] * 3
    site.await_ended()
    assert site.records() == [b"42"]


def test_P05_double_abort(pool, site):
    triple = written(pool, f"{site.prefix}-0", site.topic)
    assert site.client.end_txn(*triple, False) is EndTxnAnswer.NONE
    site.await_ended()
    assert site.client.end_txn(*triple, False) is EndTxnAnswer.NONE
    assert site.records() == []


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_P06_P07_the_opposite_end_is_refused(pool, first, second, site):
    triple = written(pool, f"{site.prefix}-0", site.topic)
    assert site.client.end_txn(*triple, first) is EndTxnAnswer.NONE
    site.await_ended()
    assert site.client.end_txn(*triple, second) is EndTxnAnswer.INVALID_TXN_STATE
    assert site.records() == ([b"42"] if first else [])


@pytest.mark.parametrize("commit", [True, False])
def test_P08_another_producer_of_the_id_came_first(pool, commit, site):
    triple = written(pool, f"{site.prefix}-0", site.topic)
    other = open_producer(
        {"bootstrap.servers": site.bootstrap, "transactional.id": f"{site.prefix}-0", "transaction.timeout.ms": "60000"}
    )
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(ROW, topic=site.topic)
    assert other.flush(30) == 1
    assert site.client.end_txn(*triple, commit) is EndTxnAnswer.PRODUCER_FENCED
    other.commit_transaction(30)
    other.close()
    site.await_ended()
    assert site.records() == [b"42"], "the other one's"
    # The pool is as good as before, under another id and under the same one.
    for transactional_id in (f"{site.prefix}-1", f"{site.prefix}-0"):
        assert site.client.end_txn(*written(pool, transactional_id, site.topic), True) is EndTxnAnswer.NONE
    site.await_ended()
    assert len(site.records()) == 3
    assert site.open_transactions() == []


def test_P09_unknown_id(site):
    assert site.client.end_txn(f"{site.prefix}-7", 1234, 0, True) is EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING


def test_P09_other_producer_id(pool, site):
    transactional_id, producer_id, epoch = written(pool, f"{site.prefix}-0", site.topic)
    answer = site.client.end_txn(transactional_id, producer_id + 10_000, epoch, True)
    assert answer is EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING
    assert site.open_transactions() == [f"{site.prefix}-0"]
    assert site.records() == []


def test_P10_former_epoch(pool, site):
    written(pool, f"{site.prefix}-0", site.topic)
    pool.drop(f"{site.prefix}-0")
    transactional_id, producer_id, epoch = written(pool, f"{site.prefix}-0", site.topic)
    assert epoch > 0
    assert site.client.end_txn(transactional_id, producer_id, epoch - 1, True) is EndTxnAnswer.PRODUCER_FENCED
    assert site.open_transactions() == [f"{site.prefix}-0"]
    assert site.records() == []
    assert site.client.end_txn(transactional_id, producer_id, epoch, True) is EndTxnAnswer.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_the_start_is_told_of_a_transaction_that_has_ended_until_the_next_producer_comes(pool, site, commit):
    """What proves later how a transaction ended."""

    def described():
        found = site.client.describe([f"{site.prefix}-0"])[f"{site.prefix}-0"]
        return (found.producer_id, found.producer_epoch), found.start_time_ms

    triple = written(pool, f"{site.prefix}-0", site.topic)
    first = described()
    assert first[1] > 0
    site.client.end_txn(*triple, commit)
    site.await_ended()
    assert described() == first
    pool.begin(f"{site.prefix}-0")
    assert described()[1] == -1, "nothing of an earlier producer is left"


@pytest.mark.parametrize("witnessed", [True, False])
def test_P11_a_transaction_older_than_its_timeout_is_reported_as_lost(make_topic, witnessed, site):
    source = make_topic(name="in")
    pool = ProducerPool(
        open_producer=open_producer,
        client=site.client,
        config={"bootstrap.servers": site.bootstrap, "transaction.timeout.ms": "1000"},
    )
    entry = pool.begin(f"{site.prefix}-0")
    entry.producer.produce(ROW, topic=site.topic)
    split = KafkaPartitionSplit(TopicPartition(source, 0), 0, 5)
    mark_starts(site.bootstrap, site.prefix, [split], 0)
    mark = offset_mark(JOB_UID, 1, 1)
    entry.producer.send_offsets({split.partition: split.stop}, group_id=site.prefix, metadata=mark, timeout=30)
    assert entry.producer.flush(30) == 1
    pool.close()
    deadline = Deadline.after(40)
    while site.client.describe([f"{site.prefix}-0"])[f"{site.prefix}-0"].state is not TransactionState.COMPLETE_ABORT:
        assert not deadline.expired
    found = site.client.end_txn(f"{site.prefix}-0", entry.producer_id, entry.producer_epoch, True)
    assert found is EndTxnAnswer.PRODUCER_FENCED
    triple = (f"{site.prefix}-0", entry.producer_id, entry.producer_epoch)
    one = committable(triple, attempt=1, ranges=(split,) if witnessed else ())
    witness = GroupOffsetsWitness({"bootstrap.servers": site.bootstrap}, group_id=site.prefix)
    (settled,) = KafkaCommitter(site.client, witness, job_uid=JOB_UID).commit([one])
    assert settled.outcome is (Outcome.LOST if witnessed else Outcome.UNCERTAIN)
    assert settled.answer is EndTxnAnswer.PRODUCER_FENCED
    assert site.records() == []
    assert site.open_transactions() == []


def test_P12_end_txn_never_exceeds_version_4(pool, monkeypatch, site):
    from kafka.protocol.producer.transaction import EndTxnRequest

    sent = []
    send = site.client._connection.send

    async def watched(request, node, deadline):
        sent.append(request)
        return await send(request, node, deadline)

    monkeypatch.setattr(site.client._connection, "send", watched)
    for _ in range(3):
        triple = written(pool, f"{site.prefix}-0", site.topic)
        assert site.client.end_txn(*triple, True) is EndTxnAnswer.NONE
        site.await_ended()
        after = site.client.describe([f"{site.prefix}-0"])[f"{site.prefix}-0"]
        assert (after.producer_id, after.producer_epoch) == triple[1:], "version 5 would have bumped the epoch"
    versions = [one.API_VERSION for one in sent if isinstance(one, EndTxnRequest)]
    assert len(versions) == 3
    assert max(versions) <= 4
    assert site.client._connection.offered_version(EndTxnRequest) >= 5, "the broker offers more"
    assert site.records() == [b"42"] * 3
