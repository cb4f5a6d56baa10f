"""Records as large as the topics take them are copied, and a dead letter finds room in its topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.sink import TopicFrom
from sparkapp.model.job.sections.source import DEFAULT_MAX_OFFSETS
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

PACES = [(Engine.MICRO_BATCH, 0), (Engine.CONTINUOUS, 0), (Engine.CONTINUOUS, 50)]
LETTER_LIMIT = 20_000


@pytest.fixture(params=PACES, ids=["micro-batch", "continuous", "local-pace"])
def make(request: pytest.FixtureRequest, local_job: LocalJobs) -> Callable[..., LocalJob]:
    engine, millis = request.param

    def made(**fields: object) -> LocalJob:
        job = local_job(engine=engine, partitions=1, parallelism=1, max_offsets=DEFAULT_MAX_OFFSETS, **fields)
        job.spec = replace(job.spec, commit_interval_millis=millis)
        return job

    return made


def fill(broker: str, topic: str, sizes: list[int], key: bytes = b"k", **fields: object) -> None:
    producer = Producer({"bootstrap.servers": broker, "message.max.bytes": 100_000_000})
    for size in sizes:
        producer.produce(topic, b"x" * size, key=key, **fields)
    assert producer.flush(60) == 0


def sizes(broker: str, topic: str) -> list[int]:
    return [len(value or b"") for value in visibility.records(broker, topic)]


def run(job: LocalJob, count: int, client: TransactionClient) -> None:
    job.start()
    job.await_records_in(count)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def with_letters(local_job: LocalJobs) -> LocalJob:
    return local_job(
        partitions=1, parallelism=1, on_record_error=OnRecordError.DEAD_LETTER, value_format=Format.JSON,
        value_schema="n BIGINT", transform=Transform(sql="SELECT key, CAST(value.n AS STRING) AS value FROM source"),
    )  # fmt: skip


def test_a_record_that_javas_clients_and_brokers_take_by_default(
    make: Callable[..., LocalJob], broker: str, client: TransactionClient
) -> None:
    job = make()
    written = [10, 1_040_000, 1_048_500, 20]
    fill(broker, job.spec.source.topics[0], written)
    run(job, len(written), client)
    assert sizes(broker, job.spec.sink.topic) == written


def test_records_of_topics_with_larger_and_smaller_limits(
    make: Callable[..., LocalJob], broker: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    wide = make_topic(name="wide", max_message_bytes="21000000")
    job = make(topic=wide)
    job.spec = replace(
        job.spec, sink=replace(job.spec.sink, topic=make_topic(name="wider", max_message_bytes="22000000"))
    )
    written = [10, 5_000_000, 20_000_000, 20]
    fill(broker, wide, written)
    run(job, len(written), client)
    assert sizes(broker, job.spec.sink.topic) == written
    # Many small records, whose batches are larger than the topic takes.
    job.spec = replace(job.spec, sink=replace(job.spec.sink, topic=make_topic(name="narrow", max_message_bytes="5000")))
    fill(broker, wide, [1000] * 300)
    run(job, len(written) + 300, client)
    assert sizes(broker, job.spec.sink.topic) == [1000] * 300


def test_large_records_of_topics_of_a_column(
    local_job: LocalJobs, broker: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    wide, sink = (make_topic(name=name, max_message_bytes="21000000") for name in ("wide", "column"))
    job = local_job(
        topic=wide,
        partitions=1,
        parallelism=1,
        transform=Transform(sql=f"SELECT key, value, '{sink}' AS topic FROM source"),
    )
    job.spec = replace(job.spec, sink=replace(job.spec.sink, topic_from=TopicFrom.COLUMN))
    fill(broker, wide, [10, 20_000_000])
    run(job, 2, client)
    assert sizes(broker, sink) == [10, 20_000_000]


def test_a_dead_letter_finds_room(
    local_job: LocalJobs, broker: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    job = with_letters(local_job)
    letters, source = make_topic(name="letters", max_message_bytes=str(LETTER_LIMIT)), job.spec.source.topics[0]
    job.spec = replace(job.spec, record_errors=replace(job.spec.record_errors, dead_letter_topic=letters))
    fill(broker, source, [999_701, 100, LETTER_LIMIT - 100, 1_048_400])
    fill(broker, source, [50], headers=[("h", b"y" * 900_000)])
    fill(broker, source, [50], key=b"q" * 900_000)
    run(job, 6, client)
    found = visibility.messages(broker, letters)
    assert len(found) == 6
    for letter in found:
        headers = dict(letter.headers())
        assert headers["kafkaspark.error.offset"] == str(found.index(letter)).encode()
    cut = [dict(letter.headers()).get("kafkaspark.error.truncated") for letter in found]
    assert cut == [b"value", None, b"value", b"value", b"headers", b"key"]
    assert dict(found[0].headers())["kafkaspark.error.value.size"] == b"999701"
    assert visibility.records(broker, job.spec.sink.topic) == []


def test_a_dead_letter_with_a_value_of_999_701_bytes_is_whole(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = with_letters(local_job)
    fill(broker, job.spec.source.topics[0], [999_701, 1_048_400])
    run(job, 2, client)
    found = visibility.messages(broker, job.spec.record_errors.dead_letter_topic)
    assert len(found[0].value()) == 999_701
    assert 1_040_000 < len(found[1].value()) < 1_048_400
    assert dict(found[1].headers())["kafkaspark.error.value.size"] == b"1048400"
