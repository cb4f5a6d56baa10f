"""The control plane when a broker is restarted, hangs, or is gone; each test breaks a broker of its own."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import CommitOutcomeUnknown, KafkaUnreachable
from sparkapp.model.settlement import EndTxnAnswer
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.native.batch import open_producer
from sparkapp.sink.committer import KafkaCommitter, Outcome
from sparkapp.sink.lingering import abort_lingering
from sparkapp.sink.producer_pool import ProducerPool
from sparkapp.sink.transaction_client import TransactionClient
from tests.support.site import Site
from tests.support.topics import create_topics

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def breakable(tmp_path_factory):
    """A broker of this module's own."""
    from localcluster.kafka import Broker

    with Broker.ephemeral(tmp_path_factory.mktemp("breakable")) as broker:
        yield broker


@pytest.fixture
def own(breakable, unique):
    """The broker, a site on it, and the committables of three open transactions of one record each."""
    create_topics(breakable.bootstrap, NewTopic(unique, num_partitions=1, replication_factor=1))
    client = TransactionClient({"bootstrap.servers": breakable.bootstrap}, timeout=20)
    pool = ProducerPool(
        open_producer=open_producer,
        client=client,
        config={"bootstrap.servers": breakable.bootstrap, "transaction.timeout.ms": "600000"},
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
    yield breakable, Site(breakable.bootstrap, unique, unique, client), committables
    client.close()


def test_commits_go_on_after_a_crash_of_the_broker(own):
    broker, site, committables = own
    committer = KafkaCommitter(site.client, None, timeout=60)
    broker.kill()
    starting = threading.Thread(target=broker.start)
    starting.start()
    settled = committer.commit(committables)
    starting.join()
    assert {one.outcome for one in settled} == {Outcome.COMMITTED}
    assert site.open_transactions() == []
    assert site.numbers() == [0, 1, 2]


def test_lingering_transactions_are_aborted_after_a_crash_of_the_broker(own):
    broker, site, _ = own
    broker.kill()
    broker.start()
    report = abort_lingering(site.client, [site.prefix], hint=TransactionalIdHint(1, 5), parallelism=1, pool_size=5)
    assert report.ids == tuple(f"{site.prefix}-{number}" for number in range(3))
    assert site.open_transactions() == []
    assert site.numbers() == []


def test_a_broker_that_hangs_leaves_the_outcome_unknown_in_time_and_settles_later(own):
    broker, site, committables = own
    broker.pause()
    started = time.monotonic()
    with pytest.raises(CommitOutcomeUnknown, match="OTHER_RETRIABLE"):
        KafkaCommitter(site.client, None, timeout=3).commit(committables)
    assert time.monotonic() - started < 10
    with pytest.raises(KafkaUnreachable):
        site.client.describe(["p-0"], deadline=Deadline.after(1))
    with pytest.raises(KafkaUnreachable):
        site.client.list_transactions("p", deadline=Deadline.after(1))
    with pytest.raises(KafkaUnreachable):
        site.client.fence_all(["p-9"], deadline=Deadline.after(1))
    broker.resume()
    settled = KafkaCommitter(site.client, None, timeout=60).commit(committables)
    assert {one.outcome for one in settled} == {Outcome.COMMITTED}
    assert site.open_transactions() == []
    assert site.numbers() == [0, 1, 2]


def test_a_client_may_be_used_from_many_threads(own):
    _, site, committables = own
    answers = []

    def work(one):
        for _ in range(20):
            site.client.describe([one.transactional_id])
        answers.append(site.client.end_txn(one.transactional_id, one.producer_id, one.producer_epoch, True))

    threads = [threading.Thread(target=work, args=(one,)) for one in committables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [EndTxnAnswer.NONE] * 3
    assert site.open_transactions() == []
    assert sorted(site.numbers()) == [0, 1, 2]
