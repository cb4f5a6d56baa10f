"""The record for which a transform of the micro-batch engine fails is in the message; state leaves a range."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.transform import OutputMode, Transform
from sparkapp.model.report import Termination
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

_MODULE = """
from pyspark.sql import functions as f


@f.udf("string")
def number(text):
    return str(int(text))


def numbers(source):
    return source.select("key", number(source.value.cast("string")).alias("value"))


def counted(source):
    numbered = source.withColumn("n", number(source.value.cast("string")))
    counts = numbered.groupBy("key").agg(f.max("n").alias("n"))
    return counts.select("key", f.col("n").alias("value"))
"""
PARTITIONS, RECORDS = 3, 400
BAD = (1, 250)


def write(broker: str, topic: str) -> None:
    """The same number of records in each partition, one of them no number."""
    producer = Producer({"bootstrap.servers": broker})
    for partition in range(PARTITIONS):
        for offset in range(RECORDS):
            value = "ten\x1b[31m" if (partition, offset) == BAD else str(partition * RECORDS + offset)
            producer.produce(topic, key=f"k{offset}", value=value, partition=partition)
    assert producer.flush(30) == 0


def failed(job: LocalJob) -> Termination:
    job.start()
    assert job.await_end() == 1, job.log()
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("TransformFailed", False), termination
    return termination


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "risky.py").write_text(_MODULE)
    return folder


@pytest.mark.parametrize(
    "case",
    [
        (
            Transform(function="risky:numbers"),
            "ValueError: invalid literal for int() with base 10: 'ten\\x1b[31m' (risky.py:7 in number)",
        ),
        (Transform(sql="SELECT key, CAST(CAST(value AS STRING) AS INT) AS value FROM source"), "[CAST_INVALID_INPUT] "),
    ],
    ids=["udf", "sql"],
)
def test_the_record_of_a_plan_that_fails_is_named(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path, case: tuple[Transform, str]
) -> None:
    transform, said = case
    job = local_job(transform=transform, code=code, partitions=PARTITIONS)
    write(broker, job.spec.source.topics[0])
    termination = failed(job)
    partition, offset = BAD
    place = f"topic {job.spec.source.topics[0]}, partition {partition}, offset {offset}, key b'k{offset}': "
    assert termination.message.startswith(place + said)
    assert all(line.isprintable() for line in termination.message.split("\n")), "of a query, the second has its text"
    assert visibility.records(broker, job.spec.sink.topic) == []
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_a_transform_with_state_has_the_range(local_job: LocalJobs, broker: str, code: Path) -> None:
    job = local_job(
        transform=Transform(function="risky:counted", output_mode=OutputMode.UPDATE), code=code, partitions=PARTITIONS
    )
    job.stateful = True
    write(broker, job.spec.source.topics[0])
    message = failed(job).message
    assert f"while it read {job.spec.source.topics[0]}-0 offsets 0 to 399, " in message
    assert "looking for the record" not in job.log(10_000)
