"""Users' transforms through the whole engine: Python, SQL, JSON and operators' state."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import OutputMode, Transform
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce, produce_json
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

_MODULE = """
import logging
from pyspark.sql import functions as f

def amount(text):
    logging.getLogger("user").warning("a record: %s\\nFORGED", text)
    return str(int(text))

def amounts(source):
    source.sparkSession._jvm.org.slf4j.LoggerFactory.getLogger("jvm").warn("a plan\\nFORGED")
    parse = f.udf(amount, "string")
    return source.select("key", parse(f.col("value").cast("string")).alias("value"))

def quote(text):
    logging.getLogger("user").warning("a record: %s", text)
    raise ValueError(text)

def quoting(source):
    return source.select("key", f.udf(quote, "string")(f.col("value").cast("string")).alias("value"))

def double(source):
    return source.select("key", (f.col("value.n") * 2).alias("value"))

def broken(source):
    return source.count

def count_keys(source):
    return source.groupBy("key").agg(f.count("*").alias("n")).select("key", f.col("n").cast("string").alias("value"))
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "enrich.py").write_text(_MODULE)
    return folder


def require_lines(log: str, *, of: set[str]) -> None:
    """These loggers quote a newline, which is escaped; the driver's lines have the same form."""
    every = log.split("\n")
    lines = [line for line in every if "FORGED" in line]
    assert of <= {json.loads(line)["logger"] for line in lines}
    assert "sparkapp.spark.driver" in {json.loads(line)["logger"] for line in every if line.startswith("{")}
    assert all(line.isprintable() for line in lines)


def test_a_python_function_over_parsed_json(local_job: LocalJobs, broker: str, code: Path) -> None:
    job = local_job(
        transform=Transform(function="enrich:double"), code=code,
        value_format=Format.JSON, value_schema="n BIGINT", key_format=Format.STRING,
    )  # fmt: skip
    produce_json(broker, job.spec.source.topics[0], [{"id": n, "n": n} for n in range(500)])
    job.start()
    job.await_records_in(500)
    assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == [2 * n for n in range(500)]


def test_a_transform_that_returns_no_data_frame_is_refused_with_a_remedy(
    local_job: LocalJobs, broker: str, code: Path
) -> None:
    job = local_job(transform=Transform(function="enrich:broken"), code=code)
    produce(broker, job.spec.source.topics[0], 0, 10)
    job.start()
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "InvalidTransform"
    assert "not a DataFrame" in termination.message
    assert termination.fatal
    assert visibility.records(broker, job.spec.sink.topic) == []


def test_a_dead_jvm_and_a_function_that_raises_are_distinguished(
    local_job: LocalJobs, broker: str, code: Path, client: TransactionClient
) -> None:
    job = local_job(transform=Transform(function="enrich:amounts"), code=code, partitions=1, parallelism=1)
    produce(broker, job.spec.source.topics[0], 0, 10)
    job.start(alone=True)
    job.await_records_in(10)
    os.kill(job.jvm(), signal.SIGKILL)
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("SparkDied", False)
    assert "signal 9" in termination.message
    require_lines(job.log(10_000), of={"user", "jvm"})

    producer = Producer({"bootstrap.servers": broker})
    producer.produce(job.spec.source.topics[0], key="k", value="twelve")
    assert producer.flush(30) == 0
    job.start()
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("TransformFailed", False)
    assert "enrich.py:7 in amount" in termination.message, termination
    assert "invalid literal for int() with base 10: 'twelve'" in termination.message
    assert termination.message.startswith(f"topic {job.spec.source.topics[0]}, partition 0, offset 10, key b'k': ")
    assert "return str(int(text))" in termination.log
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(10))


def test_operators_state_needs_a_folder_that_outlives_the_driver(local_job: LocalJobs, broker: str, code: Path) -> None:
    job = local_job(transform=Transform(function="enrich:count_keys", output_mode=OutputMode.UPDATE), code=code)
    produce(broker, job.spec.source.topics[0], 0, 10)
    job.start()
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "InvalidSpec"
    assert "keeps state" in termination.message
    assert visibility.records(broker, job.spec.sink.topic) == []


def test_an_operator_that_a_stream_cannot_have_is_refused_with_a_remedy(
    local_job: LocalJobs, broker: str, code: Path
) -> None:
    job = local_job(transform=Transform(function="enrich:count_keys"), code=code)
    produce(broker, job.spec.source.topics[0], 0, 10)
    job.start()
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("InvalidTransform", True)
    assert "watermark" in termination.message
    assert "outputMode: update" in termination.remedy


def test_an_error_with_a_plan_shows_no_key(local_job: LocalJobs, broker: str) -> None:
    job = local_job(transform=Transform(sql="SELECT key, nothing AS value FROM source"))
    produce(broker, job.spec.source.topics[0], 0, 10)
    job.start()
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert "nothing" in termination.message
    said = job.log(10_000) + termination.log
    assert "planner.sock" in said, "Spark's error has the plan, with the options of the source"
    assert re.search("key=[0-9a-f]{16}", said) is None


def test_text_of_a_record_begins_no_line_of_the_log(
    local_job: LocalJobs, broker: str, code: Path, host_log: Path
) -> None:
    """The Python worker and Spark log it. The test of a dead JVM has the log of a driver that runs alone."""
    job = local_job(transform=Transform(function="enrich:quoting"), code=code, partitions=1, parallelism=1)
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(job.spec.source.topics[0], "x\nFORGED\r\x1b[2J")
    producer.flush()
    before = host_log.stat().st_size if host_log.exists() else 0
    job.start()
    assert job.await_end() == 1
    since = host_log.read_bytes()[before:].decode()
    require_lines(since, of={"user", "org.apache.spark.scheduler.TaskSetManager"})
    termination = job.termination()
    assert termination is not None
    assert "raise ValueError(text)" in termination.log
    assert [line for line in termination.log.split("\n") if line.startswith("FORGED")] == []


def test_operators_state_continues_after_a_crash(
    local_job: LocalJobs, broker: str, code: Path, client: TransactionClient, tmp_path: Path
) -> None:
    """Counts per key stay right over a kill -9 before their first checkpoint, whose state version is written.

    The job is older than its aggregation, which begins with empty state after an edit of the transform. The job
    continues when aggregation and volume are removed.
    """
    before_it = Transform(sql="SELECT key, '0' AS value FROM source")
    job = local_job(transform=before_it, code=code, max_offsets=300)
    produce(broker, job.spec.source.topics[0], 0, 97)
    job.start()
    job.await_records_in(97)
    assert job.drain() == 0, job.log()
    before = job.document()
    assert before is not None
    assert not before.engine_has_state

    job.spec = replace(job.spec, transform=Transform(function="enrich:count_keys", output_mode=OutputMode.UPDATE))
    job.stateful = True
    produce(broker, job.spec.source.topics[0], 97, 873)
    job.start(fault=f"after-flush@attempt=2,checkpoint={before.checkpoint_id + 1}")
    assert job.await_end() < 0, job.log()
    assert list((tmp_path / "query" / "attempt-2" / "state").rglob("1.changelog"))
    job.start()
    document = job.await_records_in(970)
    assert document.engine_has_state
    assert job.drain() == 0, job.log()
    job.spec, job.stateful = replace(job.spec, transform=before_it), False
    produce(broker, job.spec.source.topics[0], 970, 30)
    job.start()
    document = job.await_records_in(1000)
    assert not document.engine_has_state
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    values = visibility.numbers(broker, job.spec.sink.topic)
    # Every key occurs nine times: a repeated record would count beyond nine, a lost one would not get there.
    assert max(values) == 9
    assert values.count(9) == 97
    assert values.count(0) == 97 + 30
