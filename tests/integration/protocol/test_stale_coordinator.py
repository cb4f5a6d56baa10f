"""A coordinator that hangs, and one that does not know of its successor: what a fence and a read are worth then. A
broker that hangs: another answers what it was asked. A leader that does not know of its successor."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import TransactionListing, TransactionState
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CommitOutcomeUnknown, KafkaUnreachable, LeaderUnavailable
from sparkapp.model.job.sections.source import OnDataLoss
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import FIRST_HINT
from sparkapp.sink.committer import KafkaCommitter
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.used_ids import UsedIds
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import TopicListSubscriber
from sparkapp.source.offsets_initializer import EarliestOffsetsInitializer
from tests.support.kafka import visibility
from tests.support.kafka.end_txn import end_txn
from tests.support.kafka.next_transaction import begin_next
from tests.support.kafka.three_brokers import GROUPS, NODES, TRANSACTIONS, Ensemble
from tests.support.kubernetes.api_client import await_that

pytestmark = pytest.mark.broker

_SECONDS = 90
_CONTROLLER_SECONDS = 4.0  # Two clients, one behind the other.


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    with Ensemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


class Subtask:
    """Writes records with the group's offsets in one transaction, under one id."""

    def __init__(self, ensemble, name):
        self.source = TopicPartition(name, 0)
        self.id = f"{name}-0.0"
        self.group = name
        self._ensemble = ensemble
        ensemble.make_topic(name, 1)

    def begin(self, offset, *nodes):
        """A transaction that is complete but for its commit.

        :param nodes: which its client asks first; all of them by default.
        """
        known = {"bootstrap.servers": self._ensemble.addresses(*(nodes or NODES))}
        member = Consumer({**known, "group.id": self.group})
        producer = self.open(*nodes)
        producer.begin_transaction()
        producer.produce(self.source.topic, str(offset).encode(), partition=0)
        offsets = [ClientPartition(self.source.topic, 0, offset)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), _SECONDS)
        member.close()
        assert producer.flush(_SECONDS) == 0
        self._written = 1
        return producer

    def open(self, *nodes):
        """A producer that has written nothing yet."""
        known = {"bootstrap.servers": self._ensemble.addresses(*(nodes or NODES))}
        producer = Producer({**known, "transactional.id": self.id, "transaction.timeout.ms": 600_000})
        producer.init_transactions(_SECONDS)
        self._written = 0
        return producer

    def begin_next(self, offset, nodes):
        """The next transaction of the id's present producer, as a document names it."""
        (frozen,) = set(NODES).difference(nodes)
        leader = self._ensemble.successor(self.source.topic, frozen)
        with contextlib.closing(client_of(self._ensemble, *nodes)) as client:
            now = begin_next(client, self.id, self.source, str(offset).encode(), sequence=self._written, node=leader)
        return self.committable(now)

    def begin_elsewhere(self, offset, nodes):
        """A transaction of the id's next producer, likewise."""
        self.begin(offset, *nodes)
        with contextlib.closing(client_of(self._ensemble, *nodes)) as client:
            return self.committable(client.describe([self.id])[self.id])

    def committable(self, now):
        """Of a transaction that is described like this."""
        return KafkaCommittable(
            transactional_id=self.id, producer_id=now.producer_id, producer_epoch=now.producer_epoch,
            start_time_ms=now.start_time_ms, checkpoint_id=2, subtask=0, records=1,
        )  # fmt: skip

    def read(self, *nodes, timeout=_SECONDS, **options):
        """The group's stable offset, by brokers that are asked first."""
        known = {"bootstrap.servers": self._ensemble.addresses(*(nodes or NODES))}
        evidence = GroupOffsetsEvidence(known, group_id=self.group, timeout=timeout, **options)
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


LISTED = ("listed last", "listed first")
"""Whether a list has the replaced coordinator's row of an id first or last."""
BEGIN = {
    "its first transaction": Subtask.begin_next,
    "its producer": Subtask.begin_next,
    "the producer before": Subtask.begin_elsewhere,
}
"""What the replaced coordinator knows of an id. Its successor also knows a transaction that begins like this."""


class Replaced(NamedTuple):
    """What the replaced coordinator answered while it reached no other broker.

    :param answers: to a commit, by what it knows, and whether recovery had an outcome then.
    :param rows: of its list, by where they come later.
    """

    subtasks: dict[str, Subtask]
    committables: dict[str, KafkaCommittable]
    answers: dict[str, tuple[EndTxnAnswer, bool]]
    rows: dict[str, list[TransactionListing]]


@pytest.fixture(scope="module")
def replaced(ensemble):
    """The transactions' coordinator hangs until another broker has replaced it, and then cannot reach the others.

    Every subtask has committed a record before. Meanwhile its next transaction begins, by the others.
    """
    subtasks = {case: kept(ensemble, case.replace(" ", "-")) for case in (*BEGIN, *LISTED)}
    subtasks["its producer"].open()
    former = ensemble.coordinator(TRANSACTIONS)
    others = [node for node in NODES if node != former]
    ensemble.freeze(former)
    try:
        ensemble.successor(TRANSACTIONS, former)
        begun = {case: BEGIN.get(case, Subtask.begin_next)(each, 2, others) for case, each in subtasks.items()}
        for other in others:
            ensemble.kill(other)
        ensemble.thaw(former)
        with ThreadPoolExecutor(len(BEGIN)) as pool:
            alone = {case: pool.submit(asked_alone, ensemble, former, begun[case]) for case in BEGIN}
        with contextlib.closing(client_of(ensemble, former)) as client:
            rows = {case: rows_of(client, subtasks[case].group) for case in LISTED}
    finally:
        ensemble.thaw(former)
        ensemble.restart_brokers()
    return Replaced(subtasks, begun, {case: each.result() for case, each in alone.items()}, rows)


def kept(ensemble, name):
    """A subtask whose producer has committed a record."""
    subtask = Subtask(ensemble, name)
    subtask.begin(1).commit_transaction(_SECONDS)
    with contextlib.closing(client_of(ensemble, *NODES)) as client:
        visibility.await_ended(client, name)
    return subtask


def asked_alone(ensemble, former, committable):
    """What a replaced coordinator answers to a commit, and whether that settles the transaction."""
    with contextlib.closing(client_of(ensemble, former)) as client:
        client.describe([committable.transactional_id])  # until it is asked, and not a broker that is gone
        triple = (committable.transactional_id, committable.producer_id, committable.producer_epoch)
        return end_txn(client, *triple, commit=True), is_settled(client, committable, timeout=5)


@pytest.mark.parametrize("knows", BEGIN)
def test_an_answer_of_a_replaced_coordinator_proves_nothing(ensemble, replaced, knows):
    """A transaction begins at the successor, and a document names it. The replaced coordinator does not know it."""
    answer, settled = replaced.answers[knows]
    assert answer is ANSWERS[knows], "it is about what the replaced coordinator knows"
    with contextlib.closing(client_of(ensemble, *NODES)) as client:
        assert settled or is_settled(client, replaced.committables[knows], timeout=_SECONDS), "by the next attempt"
        abort_others(client, replaced.subtasks[knows])
        expect(ensemble, client, replaced.subtasks[knows], [1, 2])


ANSWERS = {
    "its first transaction": EndTxnAnswer.NONE,
    "its producer": EndTxnAnswer.INVALID_TXN_STATE,
    "the producer before": EndTxnAnswer.PRODUCER_FENCED,
}


def is_settled(client, committable, *, timeout):
    """Whether recovery has an outcome, and so drops the transaction from the document."""
    try:
        KafkaCommitter(client, None, describer=client, restored=True, timeout=timeout).commit([committable])
    except (CommitOutcomeUnknown, KafkaUnreachable):
        return False
    return True


def abort_others(client, subtask):
    """As every start does when the document's transactions are settled. Returns the ids that were open."""
    slots = SlotBounds(1, 1)
    ids = UsedIds(prefixes=[subtask.group], hint=FIRST_HINT, slots=slots, parallelism=1, pool_size=1)
    return abort_lingering(client, ids)


def expect(ensemble, client, subtask, numbers):
    """Readers get these records, each once, and nothing is open."""
    assert visibility.open_transactions(client, subtask.group) == []
    assert visibility.numbers(ensemble.bootstrap, subtask.source.topic) == numbers


class AlsoAsking:
    """A client that still asks a replaced broker for its list, too. Its answer was taken while it was alone.

    :param first: whether its rows come first; the rows of an id come in any order.
    """

    def __init__(self, client, rows, *, first):
        self.describe, self.fence_all = client.describe, client.fence_all
        self._client, self._rows, self._first = client, rows, first

    def list_transactions(self, prefix, *, deadline=None):
        rows = self._client.list_transactions(prefix, deadline=deadline)
        return [*self._rows, *rows] if self._first else [*rows, *self._rows]


def rows_of(client, group):
    """What the only broker that the client reaches lists of the group's ids."""
    an_id = f"{group}-0.0"
    client.describe([an_id])  # until it is asked, and not a broker that is gone
    node, deadline = client._wire._coordinators[an_id], Deadline.after(_SECONDS)
    rows = client._connection.run(deadline, lambda: client._wire.list_transactions(None, node, deadline))
    return [row for row in rows if row.transactional_id.startswith(group)]


@pytest.mark.parametrize("listed", LISTED)
def test_what_one_broker_lists_as_open_is_aborted_whatever_another_lists(ensemble, replaced, listed):
    """No document names the successor's transaction. The replaced coordinator lists the id as committed."""
    subtask = replaced.subtasks[listed]
    (row,) = rows = replaced.rows[listed]
    assert not row.state.open
    with contextlib.closing(client_of(ensemble, *NODES)) as client:
        also_asking = AlsoAsking(client, rows, first=listed == "listed first")
        assert abort_others(also_asking, subtask) == (subtask.id,)
        subtask.begin(3).commit_transaction(_SECONDS)
        expect(ensemble, client, subtask, [1, 3])


def client_of(ensemble, *nodes):
    return TransactionClient({"bootstrap.servers": ensemble.addresses(*nodes)}, timeout=_SECONDS)


def test_a_broker_that_lags_does_not_prove_that_a_partition_is_gone(ensemble):
    """It has hung since before the topic was made, and the others hang now: nobody can tell."""
    lags, *others = NODES
    young, old = TopicPartition("young", 0), TopicPartition("old", 0)
    ensemble.make_topic(old.topic, 1)
    await_topic(ensemble, old.topic)
    known = {"bootstrap.servers": ensemble.addresses(lags), "group.id": "lags"}
    view = KafkaClusterView(known, read_committed=True, timeout=_CONTROLLER_SECONDS)
    ensemble.freeze(lags)
    try:
        ensemble.make_topic_on(young.topic, others)
        for other in others:
            ensemble.freeze(other)
        ensemble.thaw(lags)
        assert patiently(lambda: view.existing([young.topic])) == {}, "its answer"
        assert patiently(lambda: view.gone([old])) == set()
        with pytest.raises(KafkaUnreachable, match="asking each broker"):
            patiently(lambda: view.gone([young]), but="asking each broker")
    finally:
        for node in NODES:
            ensemble.thaw(node)
    await_topic(ensemble, young.topic)
    never = {TopicPartition("old", 1), TopicPartition("never", 0)}
    assert patiently(lambda: view.gone({old, young, *never})) == never
    ensemble.delete_topic(young.topic)
    await_topic(ensemble, young.topic, there=False)
    assert patiently(lambda: view.gone({old, young})) == {young}
    view.close()


def test_an_end_of_a_replaced_leader_is_not_believed(ensemble):
    """The driver's client has asked it before. It hangs until another broker leads, and is alone when it continues."""
    superseded, *others = NODES
    partition = TopicPartition("led", 0)
    ensemble.make_topic_on(partition.topic, NODES)  # the first of them leads
    await_topic(ensemble, partition.topic)
    write(ensemble, partition, 1)
    known = {"bootstrap.servers": ensemble.bootstrap, "group.id": "led"}
    view = KafkaClusterView(known, read_committed=True, timeout=_CONTROLLER_SECONDS)
    heard = []
    sources = [source_at(view, partition, policy, heard) for policy in OnDataLoss]
    assert view.confirmed_ends([partition]) == {partition: 1}
    assert view.latest([partition]) == {partition: 1}, "from now on the client knows whom to ask"
    ensemble.freeze(superseded)
    try:
        assert ensemble.successor(partition.topic, superseded) in others
        write(ensemble, partition, 2, *others)
        for source in sources:  # its subtask reads at the successor
            source.complete((KafkaPartitionSplit(partition, 1, 2),))
        for other in others:
            ensemble.kill(other)
        ensemble.thaw(superseded)
        assert view.latest([partition]) == view.log_ends([partition]) == {partition: 1}, "it does not know better"
        for source in sources:
            with pytest.raises((KafkaUnreachable, LeaderUnavailable)):
                source.plan()
            assert source.offsets == {partition: 2}
    finally:
        ensemble.thaw(superseded)
        ensemble.restart_brokers()
    assert patiently(lambda: view.confirmed_ends([partition])) == {partition: 2}
    write(ensemble, partition, 3)
    for source in sources:
        await_that("the record is planned", lambda source=source: splits_of(source) == [(2, 3)])
    assert heard == []
    view.close()


def source_at(view, partition, policy, heard):
    """An enumerator whose job has read one record."""
    source = KafkaSourceEnumerator(
        cluster=view, subscriber=TopicListSubscriber((partition.topic,)), starting=EarliestOffsetsInitializer(),
        options=EnumeratorOptions(discovery_interval=0, max_offsets=100, on_data_loss=policy),
        warn=lambda reason, message: heard.append((reason, message)),
    )  # fmt: skip
    source.start({partition: 1}, topic_ids=view.topic_ids([partition.topic]))
    return source


def splits_of(source):
    """What it plans; None where the brokers do not agree yet."""
    with contextlib.suppress(KafkaUnreachable, LeaderUnavailable):
        return [(split.start, split.stop) for split in source.plan()]


def write(ensemble, partition, number, *nodes):
    """A record, by brokers that are asked first."""
    producer = Producer({"bootstrap.servers": ensemble.addresses(*(nodes or NODES)), "acks": "all"})
    producer.produce(partition.topic, str(number).encode(), partition=partition.partition)
    assert producer.flush(_SECONDS) == 0


def patiently(ask, but=None):
    """The client asks the broker that it takes for the controller, and takes another the next time.

    A broker without a quorum still names one of the three by chance. Two of them hang, so that a question needs many
    clients, each of them a short time.

    :param but: the error of another question, which is raised.
    """
    deadline = Deadline.after(_SECONDS)
    while True:
        try:
            return ask()
        except KafkaUnreachable as error:
            if but and but in str(error):
                raise
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
