"""The local pace's driver and subtasks on a real broker: a source topic is deleted, and comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import OnTopicDeleted, Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.protocol.local_subtasks import LocalAttempts

pytestmark = pytest.mark.broker

_DISCOVERED_SECONDS = 4.0


@pytest.fixture
def job(broker: str, unique: str, make_topic: Callable[..., str]) -> Iterator[LocalAttempts]:
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers=broker),
        source=Source(
            topics=(make_topic(1, "in"), make_topic(1, "other")), group_id=unique, discovery_interval_seconds=1,
            startup=Startup(mode=StartupMode.EARLIEST), on_topic_deleted=OnTopicDeleted.IGNORE,
        ),
        sink=Sink(topic=make_topic(1, "out"), transactional_id_prefix=unique),
        transform=Transform(),
        engine=Engine.CONTINUOUS,
        checkpoint_interval_millis=300,
        commit_interval_millis=20,
    )  # fmt: skip
    attempts = LocalAttempts(spec, unique)
    yield attempts
    attempts.close()


def write(broker: str, topic: str, numbers: range) -> None:
    producer = idempotent_producer(broker)
    for number in numbers:
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(30) == 0


def await_each_once(job: LocalAttempts, broker: str, count: int) -> None:
    def look() -> None:
        if job._failure is not None:
            raise job._failure

    visibility.await_count(broker, job.spec.sink.topic, count, seconds=60, look=look)
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(count))


@pytest.fixture
def admin(broker: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker})


@pytest.mark.parametrize("ends", ["driver", "subtask", "nobody"])
def test_a_topic_that_comes_back_is_read_once(job: LocalAttempts, broker: str, admin: AdminClient, ends: str) -> None:
    gone, stays = job.spec.source.topics
    write(broker, gone, range(100))
    write(broker, stays, range(100, 200))
    job.start(1)
    await_each_once(job, broker, 200)
    admin.delete_topics([gone])[gone].result(30)
    time.sleep(_DISCOVERED_SECONDS)
    write(broker, stays, range(200, 210))
    await_each_once(job, broker, 210)
    admin.create_topics([NewTopic(gone, 1, 1)])[gone].result(30)
    write(broker, gone, range(210, 250))
    await_each_once(job, broker, 250)
    if ends == "driver":
        time.sleep(1)
        job.kill()
        job.start(1)
    elif ends == "subtask":
        job.subtasks[0].kill()
    write(broker, gone, range(250, 260))
    write(broker, stays, range(260, 270))
    await_each_once(job, broker, 270)
    job.drain()
    assert sum(job.coordinator.document.offsets.values()) == 170


def test_the_job_continues_without_a_topic_before_a_discovery(
    job: LocalAttempts, broker: str, admin: AdminClient
) -> None:
    job.spec = replace(job.spec, source=replace(job.spec.source, discovery_interval_seconds=300))
    gone, stays = job.spec.source.topics
    write(broker, gone, range(100))
    write(broker, stays, range(100, 200))
    job.start(1)
    await_each_once(job, broker, 200)
    admin.delete_topics([gone])[gone].result(30)
    time.sleep(_DISCOVERED_SECONDS)
    job.subtasks[0].kill()
    write(broker, stays, range(200, 300))
    await_each_once(job, broker, 300)
    job.drain()
    assert {partition.topic for partition in job.coordinator.document.offsets} == {stays}
