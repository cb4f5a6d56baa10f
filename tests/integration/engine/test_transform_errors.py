"""``onTransformError`` in both engines and paces: exactly once over crashes, with the exception in the letters."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

_MODULE = """
import pyarrow as pa


def discounted(batch):
    values = []
    for order in batch.column("value").to_pylist():
        if order["n"] % 50 == 7:
            raise ValueError(f"bad discount of {order['n']}")
        values.append(str(order["n"]))
    return pa.record_batch({"key": batch.column("key"), "value": pa.array(values)})
"""
RECORDS = 500


def write(broker: str, job: LocalJob, first: int) -> tuple[list[int], list[bytes], list[bytes]]:
    """Writes records; returns numbers that pass, values for which the function fails, and those that do not parse."""
    producer = Producer({"bootstrap.servers": broker})
    good, failing, unparsed = [], [], []
    for number in range(first, first + RECORDS):
        value = json.dumps({"n": number}).encode() if number % 50 != 11 else b"no json %d" % number
        (unparsed if number % 50 == 11 else failing if number % 50 == 7 else good).append(value)
        producer.produce(job.spec.source.topics[0], key=b"k%d" % number, value=value)
    assert producer.flush(30) == 0
    return [json.loads(value)["n"] for value in good], failing, unparsed


@pytest.fixture
def make(local_job: LocalJobs, tmp_path: Path) -> Callable[..., LocalJob]:
    (tmp_path / "risky.py").write_text(_MODULE)

    def made(engine: Engine, *, commit_interval_millis: int = 0) -> LocalJob:
        transform = Transform(arrow=ArrowTransform(function="risky:discounted"))
        job = local_job(
            engine=engine, transform=transform, code=tmp_path, on_record_error=OnRecordError.DEAD_LETTER,
            value_format=Format.JSON, value_schema="n BIGINT",
            max_offsets=1_000_000 if commit_interval_millis else 200,
        )  # fmt: skip
        errors = replace(job.spec.record_errors, transform_policy=OnRecordError.DEAD_LETTER)
        job.spec = replace(job.spec, record_errors=errors, commit_interval_millis=commit_interval_millis)
        return job

    return made


def require_letters(broker: str, job: LocalJob, topic: str, failing: list[bytes], unparsed: list[bytes]) -> None:
    """Each letter once; those of the function name exception, line and position."""
    letters = visibility.messages(broker, topic)
    assert Counter(letter.value() for letter in letters) == Counter(failing + unparsed)
    for letter in letters:
        headers = {name.removeprefix("kafkaspark.error."): value.decode() for name, value in letter.headers() or ()}
        assert headers["topic"] == job.spec.source.topics[0]
        assert {"partition", "offset"} <= headers.keys()
        if letter.value() in unparsed:
            assert headers["stage"] == "VALUE_DECODER"
            continue
        number = json.loads(letter.value() or b"")["n"]
        assert letter.key() == b"k%d" % number
        assert headers["stage"] == "TRANSFORM"
        assert headers["exception.class.name"] == "ValueError"
        assert headers["exception.message"] == f"bad discount of {number}"
        assert headers["exception.location"] == "risky.py:9 in discounted"


@pytest.mark.parametrize("engine", [Engine.CONTINUOUS, Engine.MICRO_BATCH])
def test_letters_and_skips_are_exactly_once_over_a_crash(
    make: Callable[..., LocalJob], broker: str, client: TransactionClient, engine: Engine
) -> None:
    job = make(engine)
    topic = job.spec.record_errors.dead_letter_topic
    good, failing, unparsed = write(broker, job, 0)
    job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    job.start()
    counters = job.await_records_in(RECORDS).counters
    assert (counters.records_out, counters.records_dead_lettered) == (len(good), len(failing) + len(unparsed))
    assert job.drain() == 0, job.log()
    require_letters(broker, job, topic, failing, unparsed)

    job.spec = replace(
        job.spec, record_errors=RecordErrors(policy=OnRecordError.SKIP, transform_policy=OnRecordError.SKIP)
    )
    more, skipped, unparsed_too = write(broker, job, RECORDS)
    job.start()
    counters = job.await_records_in(2 * RECORDS).counters
    assert counters.records_skipped == len(skipped) + len(unparsed_too)
    assert job.drain() == 0, job.log()
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == good + more
    assert len(visibility.messages(broker, topic)) == len(failing) + len(unparsed)

    job.spec = replace(job.spec, record_errors=RecordErrors(policy=OnRecordError.SKIP))
    write(broker, job, 2 * RECORDS)
    job.start()
    assert job.await_end() == 1, job.log()
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "TransformFailed"
    assert "ValueError: bad discount of " in termination.message
    assert f"topic {job.spec.source.topics[0]}, partition " in termination.message
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_letters_of_the_local_pace_are_exactly_once_over_a_kill(
    make: Callable[..., LocalJob], broker: str, client: TransactionClient
) -> None:
    job = make(Engine.CONTINUOUS, commit_interval_millis=50)
    topic = job.spec.record_errors.dead_letter_topic
    good, failing, unparsed = write(broker, job, 0)
    job.start(alone=True)
    job.await_records_in(RECORDS // 5)
    job.kill()
    more, failing_too, unparsed_too = write(broker, job, RECORDS)
    job.start()
    counters = job.await_records_in(2 * RECORDS).counters
    letters = [*failing, *failing_too], [*unparsed, *unparsed_too]
    assert counters.records_out == len(good + more)
    assert counters.records_dead_lettered == len(letters[0]) + len(letters[1])
    assert job.drain() == 0, job.log()
    require_letters(broker, job, topic, *letters)
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == good + more
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_a_high_share_of_failures_is_in_the_report(make: Callable[..., LocalJob], broker: str) -> None:
    job = make(Engine.CONTINUOUS)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(400):
        producer.produce(job.spec.source.topics[0], json.dumps({"n": 7 if number % 4 == 0 else 1}))
    assert producer.flush(30) == 0
    job.start()
    job.await_records_in(400)
    assert job.drain() == 0, job.log()
    report = job.report()
    assert report is not None
    assert report.records_judged
    found = report.records_dropped
    assert found.startswith("the transform fails for 2"), "of the records so far, when the share was first high"
    assert f"were written to topic {job.spec.record_errors.dead_letter_topic}, for example topic " in found
    assert "ValueError: bad discount of 7 (risky.py:9 in discounted)" in found
    events = [event for event in report.events if event.message == found]
    assert [event.reason for event in events] == ["RecordsDeadLettered"]
