"""A job that drops all its records says so, in every engine and pace, and no longer when records parse again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.deadline import Deadline
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from sparkapp.model.report import Report
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, LocalJob
from tests.support.kafka import visibility
from tests.support.kafka.schema_registry import framed, registry

pytestmark = pytest.mark.spark

DEAD_LETTER, SKIP = OnRecordError.DEAD_LETTER, OnRecordError.SKIP
JSON = {"value_format": Format.JSON, "value_schema": "n BIGINT"}
SQL = Transform(sql="SELECT key, CAST(value.n AS STRING) AS value FROM source")
ARROW = Transform(arrow=ArrowTransform(function="own_numbers:text"))
_MODULE = """
import pyarrow as pa

def text(batch):
    numbers = batch.column("value").field("n").cast(pa.string())
    return pa.record_batch({"key": batch.column("key"), "value": numbers})
"""


def write(broker: str, job: LocalJob, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for value in values:
        producer.produce(job.spec.source.topics[0], value=value, partition=0)
    assert producer.flush(30) == 0


def good(first: int, count: int) -> list[bytes]:
    return [json.dumps({"n": number}).encode() for number in range(first, first + count)]


def await_report(job: LocalJob, done: Callable[[Report], bool]) -> Report:
    end = Deadline.after(START_SECONDS)
    while True:
        report = job.report()
        if report is not None and done(report):
            return report
        assert job.process is not None
        assert job.process.poll() is None, job.termination()
        assert not end.expired, (report, job.log())
        time.sleep(0.1)


@pytest.mark.parametrize("policy", [SKIP, DEAD_LETTER])
@pytest.mark.parametrize("pace", ["micro-batch", "two-phase", "local"])
def test_a_job_that_drops_everything_says_so(
    local_job: LocalJobs, broker: str, tmp_path: Path, pace: str, policy: OnRecordError
) -> None:
    (tmp_path / "own_numbers.py").write_text(_MODULE)
    engine = Engine.MICRO_BATCH if pace == "micro-batch" else Engine.CONTINUOUS
    job = local_job(
        transform=SQL if engine is Engine.MICRO_BATCH else ARROW, engine=engine, code=tmp_path,
        on_record_error=policy, **JSON,
    )  # fmt: skip
    if pace == "local":
        job.spec = replace(job.spec, commit_interval_millis=50)
    write(broker, job, *good(0, 5), b"{", *good(5, 5))
    job.start()
    assert await_report(job, lambda report: report.records_judged).records_dropped == ""
    write(broker, job, *[b"plain text"] * 20)
    found = await_report(job, lambda report: bool(report.records_dropped))
    fate = "skipped" if policy is SKIP else f"written to topic {job.spec.record_errors.dead_letter_topic}"
    assert f"records were {fate}, for example topic {job.spec.source.topics[0]}, partition 0, offset " in (
        found.records_dropped
    )
    assert "the value is not JSON" in found.records_dropped
    assert any(found.records_dropped[:20] in event.message and event.type == "Warning" for event in found.events)
    write(broker, job, *good(10, 5))
    await_report(job, lambda report: not report.records_dropped)
    assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(15))


@pytest.mark.parametrize("engine", [Engine.MICRO_BATCH, Engine.CONTINUOUS])
def test_all_records_of_a_schema_are_dropped_and_others_of_its_topic_are_not(
    local_job: LocalJobs, broker: str, tmp_path: Path, engine: Engine
) -> None:
    (tmp_path / "own_numbers.py").write_text(_MODULE)
    number = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
    other = {"type": "record", "name": "Other", "fields": [{"name": "text", "type": "string"}]}
    with registry() as server:
        for _ in range(40):  # ids that no other test of the host has
            read, dropped = server.register("r", number), server.register("r", other)
        job = local_job(
            transform=SQL if engine is Engine.MICRO_BATCH else ARROW, engine=engine, code=tmp_path,
            on_record_error=SKIP, value_format=Format.AVRO, value_schema=json.dumps(number),
            schema_registry=server.access,
        )  # fmt: skip
        write(broker, job, *(framed(read, number, {"n": each}) for each in range(10)))
        write(broker, job, *(framed(dropped, other, {"text": "x"}) for _ in range(10)))
        job.start()
        found = await_report(job, lambda report: bool(report.records_dropped)).records_dropped
        assert f"records of schema {dropped} were skipped, for example topic {job.spec.source.topics[0]}, " in found
        assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(10))
