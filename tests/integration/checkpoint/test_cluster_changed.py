"""A job that is pointed at another Kafka cluster: what it has stored means nothing there, and it says so (ADR 26)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from localcluster.kafka.broker import Broker
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.partition import TopicPartition
from tests.support.kafka import visibility
from tests.support.kafka.topics import create_topics
from tests.support.protocol.moments import End, Moment
from tests.support.protocol.story import Story

PARTITIONS = 2


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another cluster."""
    with Broker.ephemeral(tmp_path_factory.mktemp("mirror")) as running:
        yield running.bootstrap


@pytest.fixture
def job(broker: str, make_topic: Callable[..., str], unique: str, client: TransactionClient) -> Iterator[Story]:
    made = Story(
        broker, make_topic(PARTITIONS, "in"), make_topic(1, "out"), unique, client, partitions=PARTITIONS,
        per_checkpoint=10,
    )  # fmt: skip
    made.produce(40)
    yield made
    made.close()


def mirrored(job: Story, mirror: str, records: int) -> None:
    """The job's topics on the other cluster, with the same records at the same offsets in the source."""
    create_topics(mirror, *(NewTopic(name, num_partitions=PARTITIONS) for name in (job.source, job.sink)))
    producer = Producer({"bootstrap.servers": mirror})
    for number in range(records):
        producer.produce(job.source, str(number), partition=number // 3 % PARTITIONS)
    assert producer.flush(30) == 0


def cluster_of(bootstrap: str, job: Story) -> KafkaClusterView:
    config = {"bootstrap.servers": bootstrap, "group.id": job.prefix}
    return KafkaClusterView(config, read_committed=True)


def group_on(bootstrap: str, job: Story) -> dict[TopicPartition, int]:
    return cluster_of(bootstrap, job).committed(TopicPartition(job.source, each) for each in range(PARTITIONS))


@pytest.mark.parametrize("crashed", [False, True])
def test_another_cluster_is_refused_and_nothing_is_written_there(job: Story, mirror: str, crashed: bool) -> None:
    if crashed:
        job.start(2)
        job.checkpoint()
        job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    else:
        job.run(2)
    mirrored(job, mirror, 40)
    before, home = job.store.read(), job.bootstrap
    job.bootstrap = mirror
    job.start(2)
    assert job.failure is not None, f"continues at {job.document.offsets} of another cluster"
    assert job.failure.reason == "ClusterChanged"
    assert job.failure.fatal
    ids = [cluster_of(each, job).cluster_id() for each in (home, mirror)]
    assert len(set(ids)) == 2
    assert all(each in job.failure.message for each in ids)
    assert job.store.read() == before, "nothing is claimed"
    assert visibility.records(mirror, job.sink, isolation="read_uncommitted") == []
    assert group_on(mirror, job) == {}
    asked = TransactionClient({"bootstrap.servers": mirror})
    assert asked.list_transactions(job.prefix) == []
    asked.close()
    job.bootstrap = home
    job.finish()


def test_a_job_moves_to_a_mirror_that_its_spec_names(job: Story, mirror: str) -> None:
    job.run(2)
    assert job.document.checkpoint_id == 2
    at = job.document.offsets
    mirrored(job, mirror, 40)
    job.bootstrap, job.cluster_id = mirror, cluster_of(mirror, job).cluster_id()
    job.run()
    assert job.failure is None
    assert job.document.cluster_id == job.cluster_id
    rest = [number for number in range(40) if number // 3 % PARTITIONS == 0][at[TopicPartition(job.source, 0)] :]
    rest += [number for number in range(40) if number // 3 % PARTITIONS == 1][at[TopicPartition(job.source, 1)] :]
    assert sorted(visibility.numbers(mirror, job.sink)) == sorted(each for each in rest if each % 5)
    asked = TransactionClient({"bootstrap.servers": mirror})
    assert visibility.open_transactions(asked, job.prefix) == []
    asked.close()


def test_a_job_with_unsettled_transactions_does_not_move(job: Story, mirror: str) -> None:
    job.start(2)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    home = job.bootstrap
    mirrored(job, mirror, 40)
    job.bootstrap, job.cluster_id = mirror, cluster_of(mirror, job).cluster_id()
    job.start(2)
    assert job.failure is not None
    assert job.failure.reason == "ClusterChanged"
    assert "2 transaction(s)" in job.failure.message
    job.bootstrap, job.cluster_id = home, ""
    job.finish()
