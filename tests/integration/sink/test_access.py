"""Credentials and ACLs, on a broker that has both."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from sparkapp.clients.cluster_view import known_topics
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.errors import AuthenticationFailed, AuthorizationFailed
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.group.member import KafkaGroupMember
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import CommittedOffsetsInitializer
from tests.support.jobs.commit_counter import CommitCounter
from tests.support.jobs.group_job import membership_options
from tests.support.kafka.end_txn import end_txn
from tests.support.kafka.secured_broker import Right, login, secured_broker

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Bootstrap of a broker with SASL/PLAIN users ``admin`` (super user) and ``job`` (ids of prefix ``mine``)."""

    rights = (
        Right(ResourceType.TRANSACTIONAL_ID, "mine", AclOperation.WRITE, prefixed=True),
        Right(ResourceType.TOPIC, "in", AclOperation.READ),
    )
    with secured_broker(tmp_path_factory.mktemp("secured"), *rights, topics=["in", "theirs"]) as broker:
        yield broker.bootstrap


def config(bootstrap, user, password):
    return {"bootstrap.servers": bootstrap, **login(user, password)}


@pytest.fixture
def client(secured):
    opened = []

    def make(user="job", password="j"):
        opened.append(TransactionClient(config(secured, user, password), timeout=20))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_right_credentials_and_rights(client):
    job = client()
    job.fence_all(["mine-0"])
    assert job.describe(["mine-0"])["mine-0"].producer_epoch == 0
    assert [each.transactional_id for each in job.list_transactions("mine")] == ["mine-0"]


@pytest.mark.parametrize(
    "call",
    [
        lambda client: end_txn(client, "mine-0", 1, 0, True),
        lambda client: client.describe(["mine-0"]),
        lambda client: client.list_transactions("mine-0"),
        lambda client: client.fence_all(["mine-0"]),
    ],
    ids=["end_txn", "describe", "list_transactions", "fence_all"],
)
def test_a_wrong_password_is_said_at_once(client, call):
    wrong = client(password="wrong")
    deadline = Deadline.after(15)
    with pytest.raises(AuthenticationFailed) as caught:
        call(wrong)
    assert not deadline.expired
    assert "wrong" not in str(caught.value).replace("mine", "")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: end_txn(client, "other-0", 1, 0, True),
        lambda client: client.describe(["other-0"]),
        lambda client: client.fence_all(["other-0"]),
    ],
    ids=["end_txn", "describe", "fence_all"],
)
def test_a_missing_acl_is_said_at_once(client, call):
    with pytest.raises(AuthorizationFailed, match="other-0"):
        call(client())


def test_ids_that_may_not_be_described_are_not_listed(client):
    """Kafka leaves them out without a word: who may write under an id may describe it, so ours never miss."""
    client("admin", "a").fence_all(["other-1"])
    assert client().list_transactions("other") == []
    assert [each.transactional_id for each in client("admin", "a").list_transactions("other")] == ["other-1"]
    client().fence_all(["mine-1"])
    assert "mine-1" in {each.transactional_id for each in client().list_transactions("mine")}


def test_the_evidence_says_what_is_missing(secured):
    started = time.monotonic()
    partition = TopicPartition("in", 0)
    with pytest.raises(AuthorizationFailed):
        GroupOffsetsEvidence(config(secured, "job", "j"), group_id="g", timeout=240).committed([partition])
    with pytest.raises(AuthenticationFailed):
        GroupOffsetsEvidence(config(secured, "job", "wrong"), group_id="g", timeout=240).committed([partition])
    assert time.monotonic() - started < 200, "an error at once, not at the time-out"
    assert GroupOffsetsEvidence(config(secured, "admin", "a"), group_id="g").committed([partition]) == {}


def test_a_topic_is_gone_only_where_the_brokers_say_so(secured):
    """A listing leaves out what may not be described; asked by name, the brokers say which it is."""
    job = KafkaClusterView({**config(secured, "job", "j"), "group.id": "g"}, read_committed=True)
    admin = KafkaClusterView({**config(secured, "admin", "a"), "group.id": "g"}, read_committed=True)
    assert job.topics() == {"in": 1}
    assert job.existing(["in"]) == {"in": 1}
    with pytest.raises(AuthorizationFailed, match="topic theirs"):
        job.existing(["in", "theirs"])
    assert admin.existing(["in", "theirs", "nowhere"]) == {"in": 1, "theirs": 1}
    assert "nowhere" not in admin.topics(), "asking makes no topic"
    assert job.existing([]) == {}
    for topic in ("theirs", "nowhere"):  # Kafka does not show that user which of them exists
        with pytest.raises(AuthorizationFailed, match=f"topic {topic}"):
            known_topics(job, ["in", topic])
    assert known_topics(admin, ["in", "nowhere"]) == {"in": 1, "theirs": 1}
    job.close()
    admin.close()


@pytest.mark.parametrize(
    ("password", "kind", "name"),
    [("j", AuthorizationFailed, "GROUP_AUTHORIZATION_FAILED"), ("wrong", AuthenticationFailed, "_AUTHENTICATION")],
)
def test_a_group_that_may_not_be_joined_is_said_at_once(secured, password, kind, name):
    settings = {**config(secured, "job", password), "group.id": "g"}
    cluster = KafkaClusterView(settings, read_committed=True)
    membership = GroupMembership(
        cluster=cluster, initializer=CommittedOffsetsInitializer(ResetStrategy.FAIL),
        tell=lambda *_: None, changed=lambda _: None, callback=CommitCounter(),
    )  # fmt: skip
    membership.start(None, [TopicPartition("in", 0)])
    member = KafkaGroupMember(settings, membership=membership, options=membership_options())

    def plan_for(seconds):
        deadline = Deadline.after(seconds)
        while not deadline.expired:
            assert membership.take() == {}
            time.sleep(0.05)

    try:
        with pytest.raises(kind, match=name):
            plan_for(20)
    finally:
        member.close()
        cluster.close()
