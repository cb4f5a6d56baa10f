"""Where a real job begins and where it ends: startup and stopping offsets through the whole engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.source import OnDataLoss
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.startup import PartitionOffset, Startup, StartupMode, Stopping, StoppingMode
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import AttemptOutcome
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, LocalJob, produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark


def outcome(job: LocalJob) -> AttemptOutcome:
    termination = job.termination()
    assert termination is not None, job.log()
    return termination.outcome


def test_I07_a_bounded_job_reads_to_the_ends_of_its_first_start_across_a_crash(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    """Its SQL shuffles, so transactions have no offsets. ``test_end_of_stream.py`` has a crash without a shuffle."""
    query = (
        "SELECT /*+ REPARTITION(2, value) */ key, value FROM source WHERE CAST(CAST(value AS STRING) AS INT) % 3 = 0"
    )
    job = local_job(stopping=Stopping(mode=StoppingMode.LATEST), max_offsets=1000, transform=Transform(sql=query))
    topic = job.spec.source.topics[0]
    produce(broker, topic, 0, 3000)
    job.start(fault="after-write@attempt=1,checkpoint=2")
    assert job.await_end() < 0
    document = job.document()
    assert document is not None
    assert not document.aligned
    assert document.evidence_group == ""
    assert document.committables
    produce(broker, topic, 3000, 500)  # after the first start: not part of the job
    job.start(parallelism=1)
    assert job.await_end() == 0
    assert outcome(job) is AttemptOutcome.FINISHED
    document = job.document()
    assert document is not None
    assert (document.finished, document.drained, document.committables) == (True, True, ())
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(0, 3000, 3))
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert document.offsets == dict(document.stops)

    # Asked to run again it has nothing to do; with another end it resumes from where it was.
    job.start()
    assert job.await_end() == 0
    assert outcome(job) is AttemptOutcome.FINISHED
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(0, 3000, 3))


def test_named_partitions_between_named_offsets(
    local_job: LocalJobs, broker: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(3, "in")
    for partition in range(3):
        produce(broker, topic, partition * 100, 100, partition=partition)
    chosen = tuple(TopicPartition(topic, partition) for partition in (0, 2))
    job = local_job(
        topic=topic, topics=(), only=chosen,
        startup=Startup(
            mode=StartupMode.SPECIFIC_OFFSETS,
            specific_offsets=(PartitionOffset(topic, 0, 90), PartitionOffset(topic, 2, 0)),
        ),
        stopping=Stopping(
            mode=StoppingMode.SPECIFIC_OFFSETS,
            specific_offsets=(PartitionOffset(topic, 0, 95), PartitionOffset(topic, 2, 10)),
        ),
    )  # fmt: skip
    job.start()
    assert job.await_end() == 0
    assert outcome(job) is AttemptOutcome.FINISHED
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == [*range(90, 95), *range(200, 210)]


def test_S40_retention_that_overtakes_a_running_job_costs_what_it_took(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(
        partitions=1, stopping=Stopping(mode=StoppingMode.LATEST), max_rate_per_partition=100,
        on_data_loss=OnDataLoss.SKIP_TO_AVAILABLE,
    )  # fmt: skip
    topic = job.spec.source.topics[0]
    produce(broker, topic, 0, 3000)
    job.start()
    job.await_records_in(200)
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_records([ClientPartition(topic, 0, 2800)])[ClientPartition(topic, 0)].result(30)
    if job.await_end() != 0:  # the deletion came between a plan and its read
        termination = job.termination()
        assert termination is not None
        assert (termination.reason, termination.fatal) == ("OffsetsWentBackwards", False)
        assert "the log begins at 2800" in termination.message
        job.start()
        assert job.await_end() == 0
    assert outcome(job) is AttemptOutcome.FINISHED
    numbers = sorted(visibility.numbers(broker, job.spec.sink.topic))
    read = numbers.index(2800)
    assert numbers == [*range(read), *range(2800, 3000)]
    assert 200 <= read < 2800
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_S40_retention_that_overtakes_a_stopped_job_is_reported_until_it_may_skip(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(partitions=1, stopping=Stopping(mode=StoppingMode.LATEST), max_rate_per_partition=100)
    topic = job.spec.source.topics[0]
    produce(broker, topic, 0, 3000)
    job.start()
    job.await_records_in(200)
    assert job.drain() == 0
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_records([ClientPartition(topic, 0, 2800)])[ClientPartition(topic, 0)].result(30)
    job.start()
    assert job.await_end() != 0
    termination, document = job.termination(), job.document()
    assert termination is not None
    assert document is not None
    read = document.offsets[TopicPartition(topic, 0)]
    assert (termination.reason, termination.fatal) == ("OffsetsWentBackwards", True)
    assert termination.message == f"{topic}-0: records from offset {read} on are gone, the log begins at 2800"
    assert "onDataLoss" in termination.remedy
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(read))
    job.spec = replace(job.spec, source=replace(job.spec.source, on_data_loss=OnDataLoss.SKIP_TO_AVAILABLE))
    job.start()
    assert job.await_end() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == [*range(read), *range(2800, 3000)]
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_partitions_added_while_the_job_runs_are_read_from_their_beginning(local_job: LocalJobs, broker: str) -> None:
    job = local_job(
        partitions=1, discovery_interval_seconds=1, startup=Startup(mode=StartupMode.LATEST), max_offsets=500
    )
    topic = job.spec.source.topics[0]
    job.start()
    deadline = time.monotonic() + START_SECONDS
    while job.document() is None or not job.document().splits:  # type: ignore[union-attr]
        assert time.monotonic() < deadline, job.log()
        time.sleep(0.1)
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)
    produce(broker, topic, 0, 1000, partition=3)
    produce(broker, topic, 1000, 200, partition=0)
    job.await_records_in(1200)
    assert job.drain() == 0
    assert outcome(job) is AttemptOutcome.DRAINED
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(1200))
