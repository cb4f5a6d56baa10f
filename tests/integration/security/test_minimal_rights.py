"""The minimal ACLs of docs/kafka-acls.md: without any of them the driver's check names exactly that right.

A second user with rights on another prefix can neither fence the first nor read its group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from sparkapp.checkpoint.recovery.rolled_back import KafkaGroupMarks
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import TransactionState
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import AuthorizationFailed
from sparkapp.model.event_reason import Durability
from sparkapp.model.job.client.config import OfClusters, consumer_config
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.preflight.checks import check_kafka, check_rights
from sparkapp.spark.preflight.durability import Finding, find_durability
from sparkapp.spark.preflight.job_clusters import JobClusters
from tests.integration.security.conftest import MINE
from tests.support.kafka.acl_guide import OPTIONAL, REQUIRED, rights_of
from tests.support.kafka.end_txn import end_txn
from tests.support.kafka.secured_broker import Right, grant, revoke
from tests.support.kafka.tls.broker import USER, TlsBroker
from tests.support.kafka.topics import create_topics
from tests.support.native.batch_path import BatchPath

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

RIGHTS = [right for section in REQUIRED for right in rights_of(section)]


@pytest.fixture(scope="module")
def granted(tls_broker: TlsBroker) -> Iterator[TlsBroker]:
    create_topics(tls_broker.bootstrap, *(NewTopic(name, 1, 1) for name in ("orders", "enriched", "orders-dlq")))
    grant(tls_broker.bootstrap, *RIGHTS, admin={})
    yield tls_broker
    for right in RIGHTS:
        revoke(tls_broker.bootstrap, right, admin={})


def check(broker: TlsBroker, **source: Any) -> Finding:
    """What an attempt of the job of the document checks before it starts Spark, and what it then warns of."""
    resource = {
        "kafka": broker.spec("scram-sha-512"),
        "source": source or {"topics": ["orders"]}, "sink": {"topic": "enriched"},
        "onRecordError": "DeadLetter", "deadLetter": {"topic": "orders-dlq"},
    }  # fmt: skip
    spec = spec_from_resource(resource, namespace="shop", name="orders")
    job = Job(namespace="shop", name="orders", uid="u", generation=1, attempt=1, spec=spec)
    config = consumer_config(job, security=broker.security(spec.kafka))
    cluster = KafkaClusterView(config, read_committed=True)
    try:
        check_rights(job, JobClusters(cluster, cluster), OfClusters(config, config))
        check_kafka(job, JobClusters(cluster, cluster))
        return find_durability(job, cluster)
    finally:
        cluster.close()


def named(right: Right) -> str:
    return f"{right.operation.name} on topic {right.name}"


def lacks(broker: TlsBroker) -> list[str]:
    """The optional rights that the finding names."""
    message = check(broker).message
    return [each for each in map(named, rights_of(OPTIONAL)) if re.search(rf"{each}(?=[,.])", message)]


def test_without_the_optional_rights_the_job_starts_and_each_is_named(granted: TlsBroker) -> None:
    found = check(granted)
    # The broker's only copy of a topic that may be described is named first.
    assert found.reason is Durability.NOT_REPLICATED
    reads = [named(right) for right in rights_of(OPTIONAL) if right.operation is AclOperation.READ]
    assert found.event.endswith(f"; the job's Kafka user lacks {', '.join(reads)}")


def test_the_optional_rights_are_enough_and_each_is_needed(granted: TlsBroker) -> None:
    optional = rights_of(OPTIONAL)
    grant(granted.bootstrap, *optional, admin={})
    left = list(optional)
    try:
        assert lacks(granted) == []
        assert "topic enriched has one copy, topic orders-dlq has one copy" in check(granted).message
        for right in optional:
            revoke(granted.bootstrap, right, admin={})
            left.remove(right)
            # A topic with one copy is warned of whatever its settings are.
            expected = [right] if right.operation is AclOperation.READ else []
            assert lacks(granted) == [named(each) for each in expected]
            grant(granted.bootstrap, right, admin={})
            left.append(right)
    finally:
        for right in left:
            revoke(granted.bootstrap, right, admin={})


def test_the_printed_rights_are_enough(granted: TlsBroker) -> None:
    check(granted)
    check(granted)


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: f"{right.operation.name} {right.kind.name} {right.name}")
def test_without_one_of_them_the_check_names_exactly_that_one(right: Right, granted: TlsBroker) -> None:
    kind = right.kind.name.lower().replace("_", "-")
    revoke(granted.bootstrap, right, admin={})
    try:
        with pytest.raises(AuthorizationFailed) as refused:
            check(granted)
    finally:
        grant(granted.bootstrap, right, admin={})
    expected = f"{right.operation.name} on {kind} {right.name}"
    assert refused.value.message == f"the job's Kafka user lacks {expected}"
    prefixed = " --resource-pattern-type prefixed" if right.prefixed else ""
    assert refused.value.remedy == (
        f"kafka-acls.sh --bootstrap-server {granted.address('sasl')} --add --allow-principal User:{USER}"
        f" --operation {right.operation.name.title()} --{kind} {right.name}{prefixed}"
    )
    check(granted)


def test_a_topic_of_a_pattern_that_may_be_described_only_is_named(granted: TlsBroker) -> None:
    create_topics(granted.bootstrap, NewTopic("orders.eu", 1, 1))
    described = Right(ResourceType.TOPIC, "orders.eu", AclOperation.DESCRIBE)
    check(granted, topicPattern=r"orders(\.eu)?")
    grant(granted.bootstrap, described, admin={})
    try:
        with pytest.raises(AuthorizationFailed, match=r"lacks READ on topic orders\.eu$"):
            check(granted, topicPattern=r"orders(\.eu)?")
    finally:
        revoke(granted.bootstrap, described, admin={})


def test_a_topic_that_the_job_has_left_needs_no_right(granted: TlsBroker) -> None:
    """The document still has it, and every start looks for the job's marks."""
    create_topics(granted.bootstrap, NewTopic("former", 1, 1))
    resource = {"kafka": granted.spec("scram-sha-512"), "source": {"topics": ["orders"]}, "sink": {"topic": "enriched"}}
    spec = spec_from_resource(resource, namespace="shop", name="orders")
    job = Job(namespace="shop", name="orders", uid="u", generation=1, attempt=2, spec=spec)
    config = consumer_config(job, security=granted.security(spec.kafka))
    splits = tuple(KafkaPartitionSplit(TopicPartition(topic, 0), 0, 1) for topic in ("former", "orders"))
    document = CheckpointDocument(
        job_uid="u", attempt=1, checkpoint_id=3, created_at="", parallelism=1, prefix="shop.orders", splits=splits
    )
    cluster = KafkaClusterView(config, read_committed=True)
    try:
        marks = KafkaGroupMarks(job, config, cluster)
        assert marks.of(document) == []
        committed = replace(document, evidence_group=spec.source.group_id)
        assert marks.final(committed) == {TopicPartition("orders", 0): None}
    finally:
        cluster.close()


def test_a_second_user_with_another_prefix_cannot_fence_the_first(tls_broker: TlsBroker) -> None:
    theirs = [right._replace(name="theirs") for right in MINE]
    grant(tls_broker.bootstrap, *theirs, admin={}, principal="User:intruder")
    first = TransactionClient(tls_broker.config("mtls"), timeout=20.0)
    config = tls_broker.config("mtls", user=tls_broker.authority.issue("intruder"))
    second = TransactionClient(config, timeout=20.0)
    path = BatchPath("native", tls_broker.address("mtls"))
    names = {name.replace(".", "_"): value for name, value in tls_broker.config("mtls").items() if "boot" not in name}
    producer = path.producer(**names, transactional_id="mine-0")
    producer.init_transactions(30.0)
    producer.begin_transaction()
    producer.produce(pa.record_batch({"value": pa.array(["x"])}), topic="mine")
    assert producer.flush(30.0) == 1
    (open_now,) = first.describe(["mine-0"]).values()

    second.fence_all(["theirs-0"])
    triple = (open_now.producer_id, open_now.producer_epoch)
    for call in (
        lambda: second.fence_all(["mine-0"]),
        lambda: second.describe(["mine-0"]),
        lambda: end_txn(second, "mine-0", *triple, False),
    ):
        with pytest.raises(AuthorizationFailed, match="mine-0"):
            call()
    assert "mine-0" not in {row.transactional_id for row in second.list_all()}
    (still,) = first.describe(["mine-0"]).values()
    assert (still.state, still.producer_id, still.producer_epoch) == (TransactionState.ONGOING, *triple)
    assert end_txn(first, "mine-0", *triple, True) is EndTxnAnswer.NONE
    for each in (path, first, second):
        each.close()
