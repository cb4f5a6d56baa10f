"""The control plane when a broker is restarted, hangs, or is gone; each test breaks a broker of its own."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.dataplane.batch import open_producer
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, EndTxnAnswer
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import CommitOutcomeUnknown, KafkaUnreachable
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.sink.committer import KafkaCommitter
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.used_ids import UsedIds
from sparkapp.sink.producers.producer_pool import ProducerPool
from tests.support.kafka import visibility
from tests.support.kafka.end_txn import end_txn
from tests.support.kafka.topic_scope import TopicScope
from tests.support.kafka.topics import create_topics

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def breakable(tmp_path_factory):
    """A broker of this module's own."""
    from localcluster.kafka.broker import Broker

    with Broker.ephemeral(tmp_path_factory.mktemp("breakable")) as broker:
        yield broker


@pytest.fixture
def own(breakable, unique):
    """The broker, a topic_scope on it, and the committables of three open transactions of one record each."""
    yield from opened(breakable, unique)


@pytest.fixture
def own_that_is_not_fenced(tmp_path, unique):
    """The same, of a broker that the controller does not fence while it hangs.

    A fenced broker's partitions have no leader for a moment. A coordinator that finds no leader completes a transaction
    without its marker, and readers wait for ever (docs/limits.md).
    """
    from localcluster.kafka.broker import Broker

    with Broker.ephemeral(tmp_path, overrides={"broker.session.timeout.ms": "600000"}) as broker:
        yield from opened(broker, unique)
        broker.kill()


def opened(breakable, unique):
    create_topics(breakable.bootstrap, NewTopic(unique, num_partitions=1, replication_factor=1))
    client = TransactionClient({"bootstrap.servers": breakable.bootstrap}, timeout=240)
    pool = ProducerPool(
        open_producer=open_producer,
        client=client,
        config={"bootstrap.servers": breakable.bootstrap, "transaction.timeout.ms": "600000"},
        scope=LogScope(topics=frozenset()),
    )
    committables = []
    for number in range(3):
        entry = pool.begin(f"{unique}-{number}")
        entry.producer.produce(pa.RecordBatch.from_pydict({"value": [str(number).encode()]}), topic=unique)
        assert entry.producer.flush(30) == 1
        committables.append(
            KafkaCommittable(
                transactional_id=entry.transactional_id,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                checkpoint_id=1,
                subtask=number,
                records=1,
            )
        )
    pool.close()
    yield breakable, TopicScope(breakable.bootstrap, unique, unique, client), committables
    client.close()


def test_commits_continue_after_a_crash_of_the_broker(own):
    broker, topic_scope, committables = own
    committer = KafkaCommitter(topic_scope.client, None, timeout=240)
    broker.kill()
    starting = threading.Thread(target=broker.start)
    starting.start()
    settled = committer.commit(committables)
    starting.join()
    assert {each.outcome for each in settled} == {CommitOutcome.COMMITTED}
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [0, 1, 2]


def test_lingering_transactions_are_aborted_after_a_crash_of_the_broker(own):
    broker, topic_scope, _ = own
    broker.kill()
    broker.start()
    ids = UsedIds(prefixes=[topic_scope.prefix], hint=TransactionalIdHint(1, 5), parallelism=1, pool_size=5)
    aborted = abort_lingering(topic_scope.client, ids)
    assert aborted == tuple(f"{topic_scope.prefix}-{number}" for number in range(3))
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_a_broker_that_hangs_leaves_the_outcome_unknown_in_time_and_settles_later(own_that_is_not_fenced):
    broker, topic_scope, committables = own_that_is_not_fenced
    broker.pause()
    started = time.monotonic()
    with pytest.raises(CommitOutcomeUnknown, match="OTHER_RETRIABLE"):
        KafkaCommitter(topic_scope.client, None, timeout=3).commit(committables)
    assert time.monotonic() - started < 120, "the committer's time-out, not the client's"
    with pytest.raises(KafkaUnreachable):
        topic_scope.client.describe(["p-0"], deadline=Deadline.after(1))
    with pytest.raises(KafkaUnreachable):
        topic_scope.client.list_transactions("p", deadline=Deadline.after(1))
    with pytest.raises(KafkaUnreachable):
        topic_scope.client.fence_all(["p-9"], deadline=Deadline.after(1))
    broker.resume()
    settled = KafkaCommitter(topic_scope.client, None, timeout=240).commit(committables)
    assert {each.outcome for each in settled} == {CommitOutcome.COMMITTED}
    assert topic_scope.open_transactions() == []
    visibility.await_stable(topic_scope.bootstrap, topic_scope.topic)
    assert topic_scope.numbers() == [0, 1, 2]


def test_a_client_may_be_used_from_many_threads(own):
    _, topic_scope, committables = own
    answers = []

    def work(each):
        for _ in range(20):
            topic_scope.client.describe([each.transactional_id])
        answers.append(end_txn(topic_scope.client, each.transactional_id, each.producer_id, each.producer_epoch, True))

    threads = [threading.Thread(target=work, args=(each,)) for each in committables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [EndTxnAnswer.NONE] * 3
    assert topic_scope.open_transactions() == []
    assert sorted(topic_scope.numbers()) == [0, 1, 2]
