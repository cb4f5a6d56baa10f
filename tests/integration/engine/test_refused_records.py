"""A record that brokers refuse, in each engine and pace: the driver has cause, remedy and the record's source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.source import DEFAULT_MAX_OFFSETS
from sparkapp.model.job.spec import Engine
from sparkapp.model.report import Termination
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

PACES = [(Engine.MICRO_BATCH, 0), (Engine.CONTINUOUS, 0), (Engine.CONTINUOUS, 50)]
YEAR_2020 = 1_577_836_800_000


@pytest.fixture(params=PACES, ids=["micro-batch", "continuous", "local-pace"])
def job(request: pytest.FixtureRequest, local_job: LocalJobs) -> LocalJob:
    """Copies one partition."""
    engine, millis = request.param
    made = local_job(engine=engine, partitions=1, parallelism=1, max_offsets=DEFAULT_MAX_OFFSETS)
    made.spec = replace(made.spec, commit_interval_millis=millis)
    return made


def with_sink(job: LocalJob, topic: str) -> str:
    job.spec = replace(job.spec, sink=replace(job.spec.sink, topic=topic))
    return job.spec.source.topics[0]


def refusal(job: LocalJob, client: TransactionClient, broker: str) -> Termination:
    """Runs an attempt that fails, and leaves nothing visible and no transaction open."""
    job.start()
    assert job.await_end() == 1, job.log()
    found = job.termination()
    assert found is not None
    assert (found.reason, found.fatal) == ("PreCommitFailed", False), job.log()
    assert "the broker refuses" in found.message, found
    return found


def test_a_time_that_the_sink_does_not_allow(
    job: LocalJob, broker: str, make_topic: Callable[..., str], client: TransactionClient
) -> None:
    sink = make_topic(name="young", message_timestamp_before_max_ms="86400000")
    source = with_sink(job, sink)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(9):
        times = {"timestamp": YEAR_2020} if number == 6 else {}
        producer.produce(source, b"%d" % number, key=b"k", **times)
    assert producer.flush(30) == 0
    found = refusal(job, client, broker)
    assert "2020-01-01" in found.message
    assert f"{source}-0 offset 6" in found.message, found
    assert f"message.timestamp.before.max.ms of topic {sink}" in found.remedy
    assert visibility.records(broker, sink) == []


def test_a_null_key_for_a_compacted_topic(
    job: LocalJob, broker: str, make_topic: Callable[..., str], client: TransactionClient
) -> None:
    sink = make_topic(name="compacted", cleanup_policy="compact")
    source = with_sink(job, sink)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(9):
        producer.produce(source, b"%d" % number, key=None if number == 4 else b"k")
    assert producer.flush(30) == 0
    found = refusal(job, client, broker)
    assert "no key" in found.message
    assert "compact" in found.message
    assert f"{sink} [0]" in found.message
    assert f"{source}-0 offset 4" in found.message, found
    assert "max.message.bytes" not in found.remedy
    assert "cleanup.policy" in found.remedy
    assert visibility.records(broker, sink) == []


def test_a_record_larger_than_the_sink_allows(
    job: LocalJob, broker: str, make_topic: Callable[..., str], client: TransactionClient
) -> None:
    sink = make_topic(name="narrow", max_message_bytes="5000")
    source = with_sink(job, sink)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(300):
        producer.produce(source, b"x" * (6000 if number == 200 else 100), key=b"%d" % number)
    assert producer.flush(30) == 0
    found = refusal(job, client, broker)
    assert f"{source}-0 offset 200" in found.message, found
    assert f"max.message.bytes of topic {sink}" in found.remedy
    assert visibility.records(broker, sink) == []
