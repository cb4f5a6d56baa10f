"""A coordinator that hangs, and one that does not know of its successor: what a fence and a read are worth then. A
broker that hangs: another answers what it was asked."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import EndTxn, TransactionState
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import CommitOutcomeUnknown, KafkaUnreachable
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import CommitOutcome, KafkaCommitter
from tests.support.kafka import visibility
from tests.support.kafka.end_txn import end_txn
from tests.support.kafka.three_brokers import GROUPS, NODES, TRANSACTIONS, Ensemble

pytestmark = pytest.mark.broker

_SECONDS = 90


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    with Ensemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


class Subtask:
    """Writes records with the group's offsets in one transaction, under one id."""

    def __init__(self, ensemble, name):
        self.source = TopicPartition(name, 0)
        self.id = f"{name}-0.0"
        self._group = name
        self._ensemble = ensemble
        ensemble.make_topic(name, 1)

    def begin(self, offset, *nodes):
        """A transaction that is complete but for its commit.

        :param nodes: which its client asks first; all of them by default.
        """
        known = {"bootstrap.servers": self._ensemble.addresses(*(nodes or NODES))}
        member = Consumer({**known, "group.id": self._group})
        producer = Producer({**known, "transactional.id": self.id})
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        producer.produce(self.source.topic, str(offset).encode(), partition=0)
        offsets = [ClientPartition(self.source.topic, 0, offset)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), _SECONDS)
        member.close()
        assert producer.flush(_SECONDS) == 0
        return producer

    def read(self, *nodes, timeout=_SECONDS, **options):
        """The group's stable offset, by brokers that are asked first."""
        known = {"bootstrap.servers": self._ensemble.addresses(*(nodes or NODES))}
        evidence = GroupOffsetsEvidence(known, group_id=self._group, timeout=timeout, **options)
        return evidence.committed([self.source])[self.source].offset


def test_a_fence_waits_for_the_markers_of_a_commit(ensemble):
    """The group's coordinator hangs: the commit is decided, and its markers are not written yet."""
    subtask = Subtask(ensemble, "fenced")
    subtask.begin(1)
    client = TransactionClient({"bootstrap.servers": ensemble.bootstrap}, timeout=_SECONDS)
    now = client.describe([subtask.id])[subtask.id]
    hanging = ensemble.coordinator(GROUPS)
    ensemble.freeze(hanging)
    try:
        triple = (subtask.id, now.producer_id, now.producer_epoch)
        assert end_txn(client, *triple, commit=True) is EndTxnAnswer.NONE
        has_waited = False
        try:
            client.fence_all([subtask.id], deadline=Deadline.after(0.2))
        except KafkaUnreachable:
            has_waited = True
        if client.describe([subtask.id])[subtask.id].state is TransactionState.PREPARE_COMMIT:
            assert has_waited, "no marker was written when the fence began"
        elif not has_waited:  # on a busy machine another broker may have replaced the coordinator by now
            assert subtask.read() == 1
    finally:
        ensemble.thaw(hanging)
    client.fence_all([subtask.id])
    assert subtask.read() == 1
    for commit in (True, False):
        assert end_txn(client, *triple, commit=commit) is EndTxnAnswer.PRODUCER_FENCED
    client.close()


def test_a_read_is_believed_only_behind_a_write(ensemble):
    """The group's coordinator hangs until another broker has replaced it, and then cannot reach the others."""
    subtask = Subtask(ensemble, "stale")
    subtask.begin(1).commit_transaction(_SECONDS)
    assert subtask.read() == 1
    superseded = ensemble.coordinator(GROUPS)
    others = [node for node in NODES if node != superseded]
    ensemble.freeze(superseded)
    try:
        ensemble.successor(GROUPS, superseded)
        subtask.begin(2, *others).commit_transaction(_SECONDS)
        assert subtask.read(*others) == 2
        for other in others:
            ensemble.kill(other)
        ensemble.thaw(superseded)
        assert subtask.read(superseded) == 1, "a stable read, and stale"
        with pytest.raises(KafkaUnreachable):
            subtask.read(superseded, timeout=5, confirm_as="stale-offsets")
    finally:
        ensemble.thaw(superseded)
        ensemble.restart_brokers()
    assert subtask.read(superseded, confirm_as="stale-offsets") == 2


def test_success_of_a_replaced_coordinator_is_not_believed(ensemble):
    """A producer that is kept begins its next transaction at the successor. The former knows its first alone."""
    subtask = Subtask(ensemble, "kept")
    subtask.begin(1).commit_transaction(_SECONDS)
    everywhere = client_of(ensemble, *NODES)
    visibility.await_ended(everywhere, "kept")
    superseded = ensemble.coordinator(TRANSACTIONS)
    others = [node for node in NODES if node != superseded]
    ensemble.freeze(superseded)
    try:
        ensemble.successor(TRANSACTIONS, superseded)
        committable = begun_again(client_of(ensemble, *others), subtask.id)
        for other in others:
            ensemble.kill(other)
        ensemble.thaw(superseded)
        former = client_of(ensemble, superseded)
        (believed,) = KafkaCommitter(former, None, timeout=_SECONDS).commit([committable])
        assert believed.outcome is CommitOutcome.COMMITTED, "the answer, which means the first transaction"
        with pytest.raises((CommitOutcomeUnknown, KafkaUnreachable)):
            KafkaCommitter(former, None, describer=former, restored=True, timeout=5).commit([committable])
    finally:
        ensemble.thaw(superseded)
        ensemble.restart_brokers()
    committer = KafkaCommitter(everywhere, None, describer=everywhere, restored=True, timeout=_SECONDS)
    (settled,) = committer.commit([committable])
    assert settled.outcome is CommitOutcome.COMMITTED
    now = everywhere.describe([subtask.id])[subtask.id]
    assert (now.start_time_ms, now.state.open) == (committable.start_time_ms, False)


def begun_again(client, transactional_id):
    """The next transaction of the id's producer, begun without its client: that may ask the replaced coordinator."""
    now = client.describe([transactional_id])[transactional_id]
    triple = {
        "transactional_id": transactional_id, "producer_id": now.producer_id, "producer_epoch": now.producer_epoch
    }  # fmt: skip
    deadline = Deadline.after(_SECONDS)
    end = EndTxn(**triple, commit=True)
    client._connection.run(deadline, lambda: client._wire.add_offsets(end, "kept", deadline))
    begun = client.describe([transactional_id])[transactional_id]
    assert begun.start_time_ms > now.start_time_ms
    return KafkaCommittable(**triple, checkpoint_id=2, subtask=0, records=1, start_time_ms=begun.start_time_ms)


def client_of(ensemble, *nodes):
    return TransactionClient({"bootstrap.servers": ensemble.addresses(*nodes)}, timeout=_SECONDS)


def test_a_broker_that_lags_does_not_prove_that_a_partition_is_gone(ensemble):
    """It has hung since before the topic was made, and the others hang now: nobody can tell."""
    lags, *others = NODES
    young, old = TopicPartition("young", 0), TopicPartition("old", 0)
    ensemble.make_topic(old.topic, 1)
    await_topic(ensemble, old.topic)
    view = KafkaClusterView({"bootstrap.servers": ensemble.addresses(lags), "group.id": "lags"}, read_committed=True)
    ensemble.freeze(lags)
    try:
        ensemble.make_topic_on(young.topic, others)
        for other in others:
            ensemble.freeze(other)
        ensemble.thaw(lags)
        assert patiently(lambda: view.existing([young.topic])) == {}, "its answer"
        assert patiently(lambda: view.gone([old])) == set()
        with pytest.raises(KafkaUnreachable):
            view.gone([young])
    finally:
        for node in NODES:
            ensemble.thaw(node)
    await_topic(ensemble, young.topic)
    never = {TopicPartition("old", 1), TopicPartition("never", 0)}
    assert view.gone({old, young, *never}) == never
    ensemble.delete_topic(young.topic)
    await_topic(ensemble, young.topic, there=False)
    assert view.gone({old, young}) == {young}
    view.close()


def patiently(ask):
    """The client asks the broker that it takes for the controller, which may hang, and takes another the next time."""
    deadline = Deadline.after(_SECONDS)
    while True:
        try:
            return ask()
        except KafkaUnreachable:
            assert not deadline.expired, "only brokers that hang were asked"


@pytest.fixture(scope="module")
def asked(ensemble):
    """A topic."""
    ensemble.make_topic("asked", 1)
    return "asked"


def await_topic(ensemble, topic, *, there=True):
    """Until every broker knows it: a broker that has hung may be behind."""
    deadline = Deadline.after(_SECONDS)
    for node in NODES:
        asked = {"bootstrap.servers": ensemble.addresses(node)}
        while (topic in AdminClient(asked).list_topics(timeout=20).topics) is not there:
            assert not deadline.expired, f"broker {node} does not know {topic}, or knows it still"


@pytest.mark.parametrize("ask", [KafkaClusterView.topics, lambda view: view.existing(["asked"])])
def test_a_question_to_a_broker_that_hangs_is_asked_again_elsewhere(ensemble, asked, ask):
    """Each broker in turn: the client asks one of them."""
    view = KafkaClusterView({"bootstrap.servers": ensemble.bootstrap, "group.id": "asks"}, read_committed=True)
    for node in NODES:
        await_topic(ensemble, asked)
        ask(view)
        ensemble.freeze(node)
        try:
            assert asked in ask(view)
        finally:
            ensemble.thaw(node)
    view.close()
