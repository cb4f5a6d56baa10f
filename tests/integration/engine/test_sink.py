"""The sink's options through the whole engine: what passes through, and where it goes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.dataplane.batch import open_producer
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.sink import Partitioner, TopicFrom
from sparkapp.model.job.sections.transform import Transform
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

HEADERS = [("trace", b"1"), ("trace", None), ("schlüssel", "✓".encode())]
MOMENT = 1_700_000_000_123
"""Milliseconds."""


def fill(bootstrap: str, topic: str, count: int, partitions: int) -> None:
    """JSON records with headers and a time of their own; record n is in partition n modulo ``partitions``."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(
            topic, json.dumps({"n": number}), partition=number % partitions, timestamp=MOMENT + number,
            headers=HEADERS if number % 2 else None,
        )  # fmt: skip
    assert producer.flush(30) == 0


@pytest.mark.parametrize("value_format", [Format.RAW, Format.STRING, Format.JSON])
def test_headers_timestamps_and_source_partitions_pass_through(
    local_job: LocalJobs, broker: str, value_format: Format
) -> None:
    schema = {"value_schema": "n BIGINT"} if value_format is Format.JSON else {}
    job = local_job(value_format=value_format, **schema)
    job.spec = replace(job.spec, sink=replace(job.spec.sink, partitioner=Partitioner.SOURCE_PARTITION))
    fill(broker, job.spec.source.topics[0], 40, partitions=4)
    job.start()
    job.await_records_in(40)
    assert job.drain() == 0
    found = visibility.messages(broker, job.spec.sink.topic)
    numbers = [json.loads(record.value())["n"] for record in found]
    assert sorted(numbers) == list(range(40))
    for number, message in zip(numbers, found, strict=True):
        assert message.partition() == number % 4
        assert message.timestamp()[1] == MOMENT + number
        assert (message.headers() or None) == (HEADERS if number % 2 else None)


def test_topics_of_a_column_and_what_is_missing_in_a_result(
    local_job: LocalJobs, broker: str, make_topic: Callable[..., str]
) -> None:
    odd, even = make_topic(name="odd"), make_topic(name="even")
    query = (
        f"SELECT value, IF(CAST(get_json_object(CAST(value AS STRING), '$.n') AS INT) % 2 = 0, '{even}', '{odd}')"
        " AS topic FROM source"
    )
    job = local_job(transform=Transform(sql=query))
    job.spec = replace(job.spec, sink=replace(job.spec.sink, topic_from=TopicFrom.COLUMN))
    fill(broker, job.spec.source.topics[0], 40, partitions=4)
    job.start()
    job.await_records_in(40)
    assert job.drain() == 0
    for topic, remainder in ((even, 0), (odd, 1)):
        numbers = [json.loads(value or b"")["n"] for value in visibility.records(broker, topic)]
        assert sorted(numbers) == list(range(remainder, 40, 2))
    assert visibility.records(broker, job.spec.sink.topic) == []
    sink = replace(job.spec.sink, partitioner=Partitioner.SOURCE_PARTITION)
    job.spec = replace(job.spec, sink=sink)
    job.start()
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("InvalidTransform", True)
    assert "no integer column 'partition'" in termination.message


def test_an_orphan_ends_while_the_job_runs_and_the_jobs_own_transactions_do_not(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job()
    fill(broker, job.spec.source.topics[0], 40, partitions=4)
    job.start()
    job.await_records_in(40)
    prefix, sink = job.spec.sink.transactional_id_prefix, job.spec.sink.topic
    zombie = open_producer({"bootstrap.servers": broker, "transactional.id": f"{prefix}-999"})
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(pa.RecordBatch.from_pydict({"value": [b"from nobody"]}), topic=sink)
    assert zombie.flush(30) == 1
    deadline = Deadline.after(START_SECONDS)
    while visibility.open_transactions(client, prefix):
        assert not deadline.expired, "the driver does not end it"
        time.sleep(0.5)
    fill(broker, job.spec.source.topics[0], 40, partitions=4)
    job.await_records_in(80)
    assert job.drain() == 0
    zombie.close()
    found = [json.loads(value)["n"] for value in visibility.records(broker, sink) if value]
    assert sorted(found) == sorted([*range(40), *range(40)])
    assert visibility.open_transactions(client, prefix) == []
