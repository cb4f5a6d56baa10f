"""``source.stopping.predicate``: partitions end at a record, exactly once, and what is no predicate is refused."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.startup import Stopping, StoppingMode
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import AttemptOutcome
from tests.integration.engine.conftest import LocalJobs
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

JSON = {"value_format": Format.JSON, "value_schema": "n BIGINT, kind STRING"}
NUMBERS = Transform(sql="SELECT key, CAST(value.n AS STRING) AS value FROM source")


def group_offsets(broker: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group, "isolation.level": "read_committed"})
    try:
        found = consumer.committed([ClientPartition(topic, number) for number in range(partitions)], timeout=30)
    finally:
        consumer.close()
    return {partition.partition: partition.offset for partition in found}


def test_partitions_end_before_their_end_records_across_a_crash_and_a_loss(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(
        partitions=2, parallelism=2, max_offsets=2000, transform=NUMBERS,
        stopping=Stopping(predicate="value.kind = 'END'"), **JSON,
    )  # fmt: skip
    topic = job.spec.source.topics[0]
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    ends = {0: 1300, 1: 1500}
    for partition, end in ends.items():
        for offset in range(3000):
            number = partition * 10_000 + offset
            text = json.dumps({"n": number, "kind": "END" if offset in (end, end + 50) else "data"})
            # Behind an end nothing is looked at, not even what would fail the job.
            producer.produce(topic, value=text if offset <= end + 100 else "not JSON", partition=partition)
            producer.poll(0)
    assert producer.flush(30) == 0
    # Checkpoint 2 reads both partitions to 2000 and finds both ends.
    job.start(fault="after-write@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    expected = {TopicPartition(topic, partition): end + 1 for partition, end in ends.items()}
    assert document.offsets == dict(document.stops) == expected
    assert (document.aligned, len(document.committables)) == (True, 2)
    # The broker gives one of the two up before anybody commits them.
    lost = document.committables[0]
    client.end_all(
        [
            EndTxn(
                transactional_id=lost.transactional_id, producer_id=lost.producer_id,
                producer_epoch=lost.producer_epoch, commit=False,
            )
        ]
    )  # fmt: skip
    job.start()
    assert job.await_end() == 0, job.log()
    termination, document = job.termination(), job.document()
    assert termination is not None
    assert termination.outcome is AttemptOutcome.FINISHED
    assert document is not None
    assert (document.finished, document.committables) == (True, ())
    assert document.offsets == dict(document.stops) == expected
    assert "is read and written again" in job.log(400)
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == [*range(1300), *range(10_000, 11_500)]
    assert group_offsets(broker, job.spec.source.group_id, topic, 2) == {0: 1301, 1: 1501}


def test_what_comes_first_ends_a_partition_also_before_a_shuffle(local_job: LocalJobs, broker: str) -> None:
    query = "SELECT /*+ REPARTITION(2) */ CAST(value AS STRING) AS value FROM source WHERE offset > 0"
    job = local_job(
        partitions=3, transform=Transform(sql=query),
        stopping=Stopping(mode=StoppingMode.LATEST, predicate="CAST(value AS STRING) = 'END' OR offset > 90"),
    )  # fmt: skip
    topic = job.spec.source.topics[0]
    producer = Producer({"bootstrap.servers": broker})
    for partition, count in enumerate((100, 50, 1)):
        for offset in range(count):
            is_end = (partition, offset) == (1, 20)
            producer.produce(topic, value="END" if is_end else str(partition * 1000 + offset), partition=partition)
    assert producer.flush(30) == 0
    job.start()
    assert job.await_end() == 0, job.log()
    termination, document = job.termination(), job.document()
    assert termination is not None
    assert termination.outcome is AttemptOutcome.FINISHED
    assert document is not None
    assert not document.aligned
    assert {partition.partition: stop for partition, stop in document.stops.items()} == {0: 92, 1: 21, 2: 1}
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == [*range(1, 91), *range(1001, 1020)]


def test_what_is_no_predicate_is_refused_before_anything_is_written(local_job: LocalJobs, broker: str) -> None:
    job = local_job(transform=NUMBERS, stopping=Stopping(predicate="true"), **JSON)
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(job.spec.source.topics[0], value='{"n": 1}')
    assert producer.flush(30) == 0
    for predicate, why in {
        "value.kind == ": "does not plan",
        "value.sort = 'END'": "does not plan",
        "offset + 1": "is of type bigint, not boolean",
        "rand() < 0.5": "does not depend on one record alone",
        "max(offset) > 5": "does not depend on one record alone",
        "EXISTS (SELECT 1 FROM VALUES (1))": "does not depend on one record alone",
        "explode(array(true, false))": "does not depend on one record alone",
        "row_number() OVER (PARTITION BY topic ORDER BY offset) = 3": "does not depend on one record alone",
        "_error_value IS NULL": "does not plan",
    }.items():
        job.spec = replace(job.spec, source=replace(job.spec.source, stopping=Stopping(predicate=predicate)))
        job.start()
        assert job.await_end() == 1
        termination = job.termination()
        assert termination is not None
        assert (termination.reason, termination.fatal) == ("InvalidSpec", True), job.log()
        assert why in termination.message
        assert "spec.source.stopping.predicate" in termination.message
        assert "value.kind = 'END'" in termination.remedy
    assert visibility.records(broker, job.spec.sink.topic) == []
