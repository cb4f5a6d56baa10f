"""What an outage of one broker can do, as real brokers with one copy and with three copies of topics are judged."""

from __future__ import annotations

import json
import shlex
import subprocess
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientPartition

from localcluster.kafka.distribution import KafkaDistribution, java_environment
from localcluster.settings import Settings
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.model.event_reason import Durability
from sparkapp.model.job.client.config import OfClusters, consumer_config
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.spark.preflight.checks import check_kafka, check_rights
from sparkapp.spark.preflight.durability import Finding, find_durability
from sparkapp.spark.preflight.job_clusters import JobClusters
from tests.support.kafka.three_brokers import GROUPS, Ensemble
from tests.support.kafka.topics import create_topics
from tests.support.patience import until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


def found(bootstrap: str, source: str, sink: str) -> Finding:
    """Of a job that starts: its checks pass."""
    resource = {
        "kafka": {"bootstrapServers": bootstrap}, "source": {"topics": [source]}, "sink": {"topic": sink},
    }  # fmt: skip
    spec = spec_from_resource(resource, namespace="shop", name=f"orders-{uuid.uuid4().hex[:6]}")
    job = Job(namespace="shop", name="orders", uid="u", generation=1, attempt=1, spec=spec)
    config = consumer_config(job, security={})
    cluster = KafkaClusterView(config, read_committed=True)
    try:
        check_rights(job, JobClusters(cluster, cluster), OfClusters(config, config))
        check_kafka(job, JobClusters(cluster, cluster))
        return find_durability(job, cluster)
    finally:
        cluster.close()


def configure(bootstrap: str, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)


def test_a_single_broker_runs_a_job_and_is_named(broker: str) -> None:
    """The broker of a laptop: every topic has one copy, also the group's, which the check of rights creates."""
    names = [f"{kind}-{uuid.uuid4().hex[:6]}" for kind in ("in", "out")]
    create_topics(broker, *(NewTopic(name, 2, 1) for name in names))
    said = found(broker, *names)
    assert said.reason is Durability.NOT_REPLICATED
    assert f"topic {names[1]} has one copy, topic {GROUPS} has one copy" in said.event
    assert names[0] not in said.message
    assert f"--entity-name {names[1]} --add-config min.insync.replicas=2" in said.message


def test_three_brokers_are_judged_by_each_topic_and_its_setting_in_force(ensemble: Ensemble) -> None:
    """The ensemble's own min.insync.replicas is 2; a topic's own value overrides it."""
    ensemble.make_topic("in", 1)
    ensemble.make_topic("out", 2)
    ensemble.make_topic_on("alone", [2])
    assert found(ensemble.bootstrap, "in", "out") == (Durability.REPLICATED, "", "")
    assert "topic alone has one copy" in found(ensemble.bootstrap, "in", "alone").event

    configure(ensemble.bootstrap, "out", "min.insync.replicas", "1")
    said = found(ensemble.bootstrap, "in", "out")
    assert (said.reason, "min.insync.replicas of topic out is 1" in said.event) == (Durability.NOT_REPLICATED, True)
    configure(ensemble.bootstrap, "out", "min.insync.replicas", "2")
    configure(ensemble.bootstrap, GROUPS, "min.insync.replicas", "1")
    assert f"min.insync.replicas of topic {GROUPS} is 1" in found(ensemble.bootstrap, "in", "out").event


def test_the_remedy_is_accepted_and_ends_the_warning(ensemble: Ensemble) -> None:
    """The command of kafka-configs.sh runs as it is printed. What copies.json has is requested as Kafka's tool does."""
    ensemble.make_topic("fine", 1)
    ensemble.make_topic_on("lonely", [3])
    configure(ensemble.bootstrap, "lonely", "min.insync.replicas", "1")
    configure(ensemble.bootstrap, GROUPS, "min.insync.replicas", "2")
    remedy = found(ensemble.bootstrap, "fine", "lonely").message.split(" Fix: ")[1]

    plan, _ = json.JSONDecoder().raw_decode(remedy[remedy.index("{") :])
    admin = KafkaAdminClient(bootstrap_servers=ensemble.bootstrap.split(","))
    wanted = {ClientPartition(each["topic"], each["partition"]): each["replicas"] for each in plan["partitions"]}
    assert admin.alter_partition_reassignments(wanted) == dict.fromkeys(wanted)
    admin.close()

    script, *options = shlex.split(remedy[remedy.index("kafka-configs.sh") :])
    assert script == "kafka-configs.sh"
    java = KafkaDistribution.of(Settings.from_environment()).java("64m")
    subprocess.run([*java, "kafka.admin.ConfigCommand", *options], env=java_environment(), timeout=120, check=True)
    until(lambda: found(ensemble.bootstrap, "fine", "lonely").reason is Durability.REPLICATED)
