"""``sink.transactions.timeoutSeconds: 0``: open transactions that only the job ends, on a broker that allows it."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.kafka.broker import Broker
from sparkapp.checkpoint.store import FileStore
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import TransactionState
from sparkapp.dataplane.batch import open_producer
from sparkapp.model import report
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
from sparkapp.model.errors import TransactionFenced
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.sections.transform import Transform
from sparkapp.spark.settling import settle
from tests.support.jobs.local_job import ROOT
from tests.support.jobs.sink_harness import Harness
from tests.support.kafka import visibility
from tests.support.kafka.topic_scope import TopicScope
from tests.support.kafka.topics import create_topics
from tests.support.protocol.moments import OF_A_CHECKPOINT, End, Moment
from tests.support.protocol.story import Story

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
    create_topics(patient.bootstrap, *(NewTopic(each, num_partitions=3) for each in (unique, f"{unique}.in")))
    client = TransactionClient({"bootstrap.servers": patient.bootstrap})
    yield TopicScope(patient.bootstrap, unique, unique, client)
    client.close()


def control_is_aborted(topic_scope):
    """A transaction with a time-out of a second is begun, and the broker has aborted it when this returns.

    A broker that is slow after its restart aborts it before it answers the client.
    """
    control = f"{topic_scope.prefix}.control-0"
    producer = open_producer(
        {"bootstrap.servers": topic_scope.bootstrap, "transactional.id": control, "transaction.timeout.ms": "1000"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    with suppress(TransactionFenced):
        producer.send_offsets({(f"{topic_scope.prefix}.in", 0): 1}, group_id=control, metadata="", timeout=30)
    producer.close()
    deadline = Deadline.after(60)
    while topic_scope.client.describe([control])[control].state is not TransactionState.COMPLETE_ABORT:
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
    assert [each.outcome for each in second.settled] == [CommitOutcome.COMMITTED]
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


@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "shuffled"])
@pytest.mark.parametrize("moment", [Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS])
def test_a_crashed_job_that_is_deleted_commits_what_is_final_and_aborts_the_rest(
    patient, own, tmp_path, moment, aligned
):
    job = Story(own.bootstrap, f"{own.prefix}.in", own.topic, own.prefix, own.client, never=True, aligned=aligned)
    job.produce(30)
    job.start(2)
    job.checkpoint()
    visibility.await_ended(own.client, own.prefix)
    first = visibility.numbers(own.bootstrap, own.topic)
    job.produce(30)
    job.checkpoint((moment, End.KILL))
    assert job.open_transactions() != []
    last = settle(job.last_attempt(), store=job.store, retained=job.retained, credentials=tmp_path)
    assert (last.outcome, last.reason) == (report.AttemptOutcome.DRAINED, "Settled"), last.message
    assert job.open_transactions() == []
    kept = [number for number in range(60) if number % 5]
    assert sorted(visibility.numbers(own.bootstrap, own.topic)) == (
        sorted(first) if moment is Moment.AFTER_FLUSH else kept
    )
    assert (job.document.attempt, job.document.drained, job.document.committables) == (2, True, ())


def test_the_program_settles_without_spark_topics_or_the_users_code(patient, own, tmp_path):
    """Whatever made the job fail before."""
    job = Story(own.bootstrap, f"{own.prefix}.in", own.topic, own.prefix, own.client, never=True)
    job.store = FileStore(tmp_path / "state")
    job.produce(30)
    job.start(2)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    assert job.open_transactions() != []
    description = job.last_attempt()
    broken = Transform(function="nowhere:nothing")
    gone = replace(description.spec.source, topics=("no.such.topic",))
    spec = replace(description.spec, transform=broken, source=gone)
    (tmp_path / "job.json").write_text(encode_job(replace(description, spec=spec)))
    command = ["-m", "sparkapp", "run", "--job", str(tmp_path / "job.json"), "--state", str(tmp_path / "state")]
    variables = {
        "PYTHONPATH": str(ROOT), "PATH": "/nowhere", "KAFKASPARK_TERMINATION_LOG": str(tmp_path / "termination"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, *command], env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    last = report.decode_termination((tmp_path / "termination").read_text())
    assert last is not None
    assert last.reason == "Settled"
    assert job.open_transactions() == []
    assert sorted(visibility.numbers(own.bootstrap, own.topic)) == [number for number in range(30) if number % 5]
