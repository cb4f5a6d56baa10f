"""Both engines from one Kafka cluster to another, with Spark: a copy under the same name, through a kill of the driver.

Each step of a checkpoint is tested without Spark, in ``tests/integration/protocol/test_two_clusters.py``.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.kafka.broker import Broker
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.kafka import SINK_CLUSTER, KafkaCluster
from sparkapp.model.job.sections.sink import Partitioner
from sparkapp.model.job.spec import Engine
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility
from tests.support.kafka.topics import create_topics

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sink_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker.ephemeral(tmp_path_factory.mktemp("sink-broker")) as running:
        yield running.bootstrap


@pytest.mark.parametrize("engine", [Engine.MICRO_BATCH, Engine.CONTINUOUS])
def test_a_copy_to_another_cluster_survives_a_crash_between_the_commits(
    engine: Engine, local_job: LocalJobs, broker: str, sink_broker: str, client: TransactionClient
) -> None:
    job = local_job(max_offsets=3000, engine=engine)
    topic, prefix = job.spec.source.topics[0], job.spec.sink.transactional_id_prefix
    kafka = KafkaCluster(bootstrap_servers=sink_broker, field=SINK_CLUSTER)
    sink = replace(job.spec.sink, topic=topic, kafka=kafka, partitioner=Partitioner.ROUND_ROBIN)
    job.spec = replace(job.spec, sink=sink)
    create_topics(sink_broker, NewTopic(topic, num_partitions=2, replication_factor=1))
    produce(broker, topic, 0, 9000)
    job.start(fault=f"{ProtocolStep.BETWEEN_COMMITS}@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    produce(broker, topic, 9000, 1000)
    job.start(parallelism=1)
    job.await_records_in(10_000)
    assert job.drain() == 0, job.log()
    with closing(TransactionClient({"bootstrap.servers": sink_broker})) as of_sink:
        assert visibility.open_transactions(of_sink, prefix) == []
    assert client.list_transactions(prefix) == [], "the cluster of the source has no transactions"
    assert sorted(visibility.numbers(sink_broker, topic)) == list(range(10_000))
    assert sorted(visibility.numbers(broker, topic)) == list(range(10_000)), "nothing is written to the source"
