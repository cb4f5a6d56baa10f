"""The local pace's driver and subtasks on a real broker, with the signals of the operating system against them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.report import SETTLED, AttemptOutcome
from sparkapp.spark.settling import settle
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.kafka.late_requests import END_TXN, TXN_OFFSET_COMMIT, LateRequests
from tests.support.patience import until
from tests.support.protocol.local_subtasks import LocalAttempts

pytestmark = pytest.mark.broker

PARTITIONS = 4


@pytest.fixture
def job(broker: str, unique: str, make_topic: Callable[..., str]) -> Iterator[LocalAttempts]:
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers=broker),
        source=Source(
            topics=(make_topic(PARTITIONS, "in"),), group_id=unique, startup=Startup(mode=StartupMode.EARLIEST)
        ),
        sink=Sink(topic=make_topic(PARTITIONS, "out"), transactional_id_prefix=unique),
        transform=Transform(),
        engine=Engine.CONTINUOUS,
        checkpoint_interval_millis=300,
        commit_interval_millis=20,
    )
    attempts = LocalAttempts(spec, unique)
    yield attempts
    attempts.close()


class Numbers:
    """Writes numbers without a pause that is worth mentioning."""

    def __init__(self, broker: str, topic: str) -> None:
        self.written = 0
        self._producer = idempotent_producer(broker)
        self._topic = topic

    def write(self, count: int) -> None:
        for number in range(self.written, self.written + count):
            self._producer.produce(self._topic, str(number), partition=number % PARTITIONS)
        assert self._producer.flush(30) == 0
        self.written += count

    @contextmanager
    def writing(self) -> Iterator[None]:
        over = threading.Event()

        def write() -> None:
            while not over.wait(0.005):
                self.write(20)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def await_visible(job: LocalAttempts, count: int) -> None:
    visibility.await_count(job.spec.kafka.bootstrap_servers, job.spec.sink.topic, count, seconds=60)


def require_each_once(job: LocalAttempts, client: TransactionClient, count: int) -> None:
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    found = sorted(visibility.numbers(job.spec.kafka.bootstrap_servers, job.spec.sink.topic))
    assert found == list(range(count))


@pytest.fixture
def source(job: LocalAttempts, broker: str) -> Numbers:
    return Numbers(broker, job.spec.source.topics[0])


def test_records_are_copied_and_recorded(job: LocalAttempts, source: Numbers, client: TransactionClient) -> None:
    source.write(1000)
    for parallelism in (2, 3, 1):
        job.start(parallelism)
        with source.writing():
            await_visible(job, source.written + 500)
        await_visible(job, source.written)
        job.drain()
        document = job.coordinator.document
        assert document.drained
        assert document.counters.records_in == document.counters.records_out == source.written
        assert sum(document.offsets.values()) == source.written
    require_each_once(job, client, source.written)


@pytest.mark.parametrize("seed", range(3))
def test_kills_and_freezes(job: LocalAttempts, source: Numbers, client: TransactionClient, seed: int) -> None:
    dice = random.Random(seed)
    source.write(100)
    job.start(2)
    with source.writing():
        for _ in range(12):
            await_visible(job, source.written + dice.randrange(200))
            number = dice.choice(list(job.subtasks))
            what = dice.choice(["kill", "freeze", "replace", "driver", "driver and freeze", "thaw"])
            if what == "kill":
                job.subtasks[number].kill()
            elif what == "freeze":
                job.subtasks[number].freeze()
                threading.Timer(dice.choice([0.3, 3.0]), job.subtasks[number].thaw).start()
            elif what == "replace":
                job.replace(number)
            elif what == "thaw":
                job.thaw()
            else:
                job.kill(frozen=what != "driver")
                job.start(dice.choice([1, 2, 3]))
        job.thaw()
    await_visible(job, source.written)
    job.drain()
    require_each_once(job, client, source.written)


def test_requests_that_are_sent_again(
    job: LocalAttempts, source: Numbers, client: TransactionClient, broker: str
) -> None:
    """Answers are lost, and requests arrive late. Each time the subtask has a new producer, without a failure."""
    way = LateRequests(broker)
    job.executors = way.address
    source.write(100)
    job.start(2)
    started = dict(job.subtasks)
    try:
        with source.writing():
            await_visible(job, source.written)
            for api_key in (END_TXN, TXN_OFFSET_COMMIT) * 2:
                for lose in (way.withhold, partial(way.swallow, end=True)):
                    lose(api_key)
                    await_visible(job, source.written + 300)
                    way.deliver()
        await_visible(job, source.written)
        job.drain()
    finally:
        way.close()
    assert job.subtasks == started, "no process was started again"
    require_each_once(job, client, source.written)


def test_an_idle_subtask_of_a_wider_attempt_writes_nothing_any_more(
    job: LocalAttempts, source: Numbers, client: TransactionClient
) -> None:
    """Three of four have had no record when they are frozen, and find many when they continue."""
    source.write(1)
    job.start(4)
    await_visible(job, 1)
    job.kill(frozen=True)
    source.write(4000)
    job.start(1)
    with source.writing():
        job.thaw()
        await_visible(job, source.written + 500)
    await_visible(job, source.written)
    job.drain()
    require_each_once(job, client, source.written)


def test_a_deleted_job_leaves_no_subtask_that_can_write(
    job: LocalAttempts, source: Numbers, client: TransactionClient, broker: str, tmp_path: Path
) -> None:
    """Its last attempt resumes nothing, so a group that somebody has moved does not stop it."""
    source.write(100)
    job.start(2)
    with source.writing():
        await_visible(job, 200)
        job.kill(frozen=True)
    moved = [ClientPartition(job.spec.source.topics[0], number, 3) for number in range(PARTITIONS)]
    admin = AdminClient({"bootstrap.servers": broker})
    (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(job.uid, moved)]).values()
    future.result(30)
    last = settle(job.last_attempt(), store=job.store, retained=MemoryRetainedStore(), credentials=tmp_path)
    assert (last.outcome, last.reason) == (AttemptOutcome.DRAINED, SETTLED), last.message
    written = visibility.numbers(broker, job.spec.sink.topic)
    job.thaw()
    until(lambda: all(process.ended for process in job.frozen))
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert visibility.numbers(broker, job.spec.sink.topic) == written
