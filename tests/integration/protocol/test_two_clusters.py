"""From one Kafka cluster to another: a crash at each step, and what is proven without offsets in the transactions.

The group is on the brokers of the source, the transactions are on those of the sink (ADR 92).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.kafka.broker import Broker
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.errors import ClusterChanged, StateUncertain
from sparkapp.model.job.spec import Engine
from sparkapp.model.partition import TopicPartition
from tests.integration.protocol.conftest import Stories
from tests.support.kafka.topics import create_topics
from tests.support.patience import until
from tests.support.protocol.moments import OF_A_CHECKPOINT, OF_A_START, End, Moment
from tests.support.protocol.story import Story

ENGINES = (Engine.MICRO_BATCH, Engine.CONTINUOUS)
FROM = 2
TO = (2, 3, 1)
"""As many subtasks, more and fewer, in turn."""
Jobs = Callable[..., Story]


@pytest.fixture(scope="module")
def sink_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A second cluster; the shared broker is the first."""
    overrides = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    with Broker.ephemeral(tmp_path_factory.mktemp("sink-broker"), overrides=overrides) as running:
        yield running.bootstrap


@pytest.fixture
def two_clusters(story: Stories, sink_broker: str, unique: str) -> Iterator[Jobs]:
    """``two_clusters(engine, **fields) -> Story`` with its sink on the second cluster."""
    with closing(TransactionClient({"bootstrap.servers": sink_broker})) as client:

        def make(engine: Engine, **fields: object) -> Story:
            # Two brokers of a busy machine are slow, and no transaction of theirs is to time out by itself.
            fields = {"timeout": 600, "patience": 120.0, **fields}
            job = story(engine=engine, sink_bootstrap=sink_broker, client=client, sink=f"{unique}.sink", **fields)
            create_topics(sink_broker, NewTopic(job.sink, num_partitions=2, replication_factor=1))
            return job

        yield make


def require_source_untouched(job: Story, client: TransactionClient) -> None:
    """The cluster of the source has the group's offsets, in the end, and no transaction of the job."""
    assert client.list_transactions(job.prefix) == []
    wanted = {TopicPartition(job.source, partition): end for partition, end in job.ends.items()}

    def committed() -> dict[TopicPartition, int]:
        evidence = GroupOffsetsEvidence({"bootstrap.servers": job.bootstrap}, group_id=job.prefix, stable=False)
        return {each: found.offset for each, found in evidence.committed(sorted(wanted)).items()}

    until(lambda: committed() == wanted)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("moment", "to"), list(zip(OF_A_CHECKPOINT, itertools.cycle(TO), strict=False)))
def test_an_attempt_that_is_killed_in_a_checkpoint(
    engine: Engine, moment: Moment, to: int, two_clusters: Jobs, client: TransactionClient
) -> None:
    job = two_clusters(engine)
    job.produce(60)
    job.start(FROM)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    job.produce(30)
    assert job.finish(to) == 0
    require_source_untouched(job, client)


@pytest.mark.parametrize("moment", OF_A_START)
def test_an_attempt_that_is_killed_while_it_recovers(moment: Moment, two_clusters: Jobs) -> None:
    job = two_clusters(Engine.MICRO_BATCH)
    job.produce(60)
    job.start(FROM)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    job.start(3, stop=(moment, End.KILL))
    job.produce(30)
    assert job.finish(1) == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("moment", [Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS])
def test_transactions_that_timed_out_are_proven_lost_by_their_coordinator(
    engine: Engine, moment: Moment, two_clusters: Jobs
) -> None:
    """Exactly the lost ranges are read again, though no offset says which."""
    job = two_clusters(engine, timeout=5)
    job.produce(60)
    job.start(FROM)
    job.checkpoint((moment, End.KILL))
    job.expire()
    assert job.finish(3) == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("moment", [Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.AFTER_COMMITS])
def test_a_frozen_attempt_continues_when_another_has_taken_over(
    engine: Engine, moment: Moment, two_clusters: Jobs
) -> None:
    """Nothing fences its commit of the group's offsets, and no recovery asks for them."""
    job = two_clusters(engine)
    job.produce(60)
    job.start(FROM)
    job.checkpoint((moment, End.FREEZE))
    job.start(3)
    job.checkpoint()
    job.thaw()
    job.produce(30)
    assert job.finish(FROM) == 0


def test_without_the_groups_offsets_an_id_that_was_taken_over_proves_nothing(two_clusters: Jobs) -> None:
    """With one cluster the offsets in the transactions prove the loss."""
    job = two_clusters(Engine.MICRO_BATCH)
    job.produce(60)
    job.start(FROM)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    job.fence()
    job.start(FROM)
    assert isinstance(job.failure, StateUncertain)
    assert job.open_transactions() == []


def test_deleted_offsets_of_the_group_change_nothing(two_clusters: Jobs) -> None:
    job = two_clusters(Engine.MICRO_BATCH)
    job.produce(60)
    job.start(FROM)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    job.forget_group_offsets()
    assert job.finish(3) == 0


def test_a_sink_cluster_that_changed_under_the_job_is_refused(two_clusters: Jobs, sink_broker: str) -> None:
    job = two_clusters(Engine.MICRO_BATCH)
    job.produce(60)
    job.start(FROM)
    job.checkpoint()
    job.drain()
    written = job.document
    assert written.sink_cluster_id not in {"", written.cluster_id}
    # The source's cluster in its place, and back.
    job.sink_bootstrap = ""
    job.start(FROM)
    assert isinstance(job.failure, ClusterChanged)
    assert job.document == written
    job.sink_bootstrap = sink_broker
    assert job.finish(FROM) == 0
