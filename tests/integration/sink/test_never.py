"""``sink.transactionTimeout: Never``: open transactions that only the job ends, on a broker that allows it."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.kafka import Broker
from sparkapp.model.deadline import Deadline
from sparkapp.native.batch import open_producer
from sparkapp.sink.committer import Outcome
from sparkapp.sink.transaction_client import TransactionClient
from tests.support.harness import Harness
from tests.support.protocol_moments import OF_A_CHECKPOINT, End, Moment
from tests.support.protocol_story import Story
from tests.support.site import Site
from tests.support.topics import create_topics

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """A broker that takes any time-out, and looks for transactions that are beyond theirs twice a second."""
    overrides = {
        "transaction.max.timeout.ms": "2147483647",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    with Broker.ephemeral(tmp_path_factory.mktemp("patient"), overrides=overrides) as broker:
        yield broker


@pytest.fixture
def own(patient, unique):
    create_topics(patient.bootstrap, *(NewTopic(one, num_partitions=3) for one in (unique, f"{unique}.in")))
    client = TransactionClient({"bootstrap.servers": patient.bootstrap})
    yield Site(patient.bootstrap, unique, unique, client)
    client.close()


def control_is_aborted(site):
    """A transaction with a time-out of a second is begun, and the broker has aborted it when this returns."""
    control = f"{site.prefix}.control-0"
    producer = open_producer(
        {"bootstrap.servers": site.bootstrap, "transactional.id": control, "transaction.timeout.ms": "1000"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets({(f"{site.prefix}.in", 0): 1}, group_id=control, metadata="", timeout=30)
    producer.close()
    deadline = Deadline.after(60)
    while site.client.describe([control])[control].state.open:
        assert not deadline.expired, "the control is not aborted"
        threading.Event().wait(0.1)


def test_an_open_transaction_outlives_its_owner_the_brokers_scans_and_a_restart(patient, own):
    first = Harness(patient.bootstrap, own.topic, own.prefix, never=True).open()
    first.write(1)
    state = first.snapshot(1)
    (named,) = state.pending
    first.kill()
    patient.kill()
    patient.start()
    control_is_aborted(own)
    found = own.client.describe([named.transactional_id])[named.transactional_id]
    assert found.is_open_with(named.producer_id, named.producer_epoch)
    assert found.timeout_ms == 2**31 - 1
    second = Harness(patient.bootstrap, own.topic, own.prefix, never=True).restore(state)
    assert [one.outcome for one in second.settled] == [Outcome.COMMITTED]
    second.kill()
    assert own.open_transactions() == []
    assert own.numbers() == [1]


@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "shuffled"])
@pytest.mark.parametrize("moment", [Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS])
def test_a_job_that_is_down_for_any_time_loses_and_repeats_nothing(patient, own, moment, aligned):
    """With a time-out of 2 s the same story is a replay, or StateUncertain where a pipeline shuffles."""
    assert moment in OF_A_CHECKPOINT
    job = Story(
        own.bootstrap, f"{own.prefix}.in", own.topic, own.prefix, own.client, never=True, timeout=1, aligned=aligned
    )
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.produce(30)
    job.checkpoint((moment, End.KILL))
    control_is_aborted(own)
    job.start(2)
    assert job.recovery.lost == (), "nothing is replayed"
    job.finish(2)
    assert own.open_transactions() == []
