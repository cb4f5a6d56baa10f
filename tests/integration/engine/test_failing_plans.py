"""``onTransformError`` for SQL and functions of DataFrames: the driver finds the records, exactly once over a crash."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.jobs.risky import LOCATION, SQL, produce_numbers, risky_code
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

PARTITIONS, RECORDS = 2, 150
BAD = frozenset({(0, 3), (0, 4), (1, 149)})


def write(broker: str, topic: str, first: int) -> list[int]:
    return produce_numbers(broker, topic, partitions=PARTITIONS, records=RECORDS, bad=BAD, first=first)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return risky_code(tmp_path)


def made(local_job: LocalJobs, transform: Transform, code: Path) -> LocalJob:
    job = local_job(transform=transform, code=code, partitions=PARTITIONS, on_record_error=OnRecordError.DEAD_LETTER)
    topic = job.spec.record_errors.dead_letter_topic
    errors = RecordErrors(transform_policy=OnRecordError.DEAD_LETTER, dead_letter_topic=topic)
    job.spec = replace(job.spec, record_errors=errors)
    return job


@pytest.mark.parametrize(
    "case",
    [
        (Transform(function="risky:numbers"), "ValueError", LOCATION),
        (Transform(sql=SQL), "CAST_INVALID_INPUT", ""),
    ],
    ids=["udf", "sql"],
)
def test_letters_and_skips_of_a_plan_are_exactly_once_over_a_crash(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path, case: tuple[Transform, str, str]
) -> None:
    transform, kind, place = case
    job = made(local_job, transform, code)
    source, dead = job.spec.source.topics[0], job.spec.record_errors.dead_letter_topic
    good = write(broker, source, 0)
    job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=1")
    assert job.await_end() == -signal.SIGKILL, job.log()
    job.start()
    counters = job.await_records_in(PARTITIONS * RECORDS).counters
    assert (counters.records_out, counters.records_dead_lettered) == (len(good), len(BAD))
    assert job.drain() == 0, job.log()
    letters = visibility.messages(broker, dead)
    told = []
    for letter in letters:
        headers = {name.removeprefix("kafkaspark.error."): value.decode() for name, value in letter.headers() or ()}
        told.append((int(headers["partition"]), int(headers["offset"])))
        assert letter.value() == b"no number %d" % (told[-1][0] * RECORDS + told[-1][1])
        assert letter.key() == b"k%d" % (told[-1][0] * RECORDS + told[-1][1])
        assert (headers["h"], headers["topic"], headers["stage"]) == ("1", source, "TRANSFORM")
        assert (headers["exception.class.name"], headers["exception.location"]) == (kind, place)
        assert "no number" in headers["exception.message"]
    assert Counter(told) == Counter(BAD), "each letter once"

    job.spec = replace(job.spec, record_errors=RecordErrors(transform_policy=OnRecordError.SKIP))
    good += write(broker, source, 1000)
    job.start()
    counters = job.await_records_in(2 * PARTITIONS * RECORDS).counters
    assert (counters.records_out, counters.records_skipped) == (len(good), len(BAD))
    assert job.drain() == 0, job.log()
    report = job.report()
    assert report is not None
    assert report.records_judged
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == good, "read_committed"
    assert len(visibility.messages(broker, dead)) == len(BAD)
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_a_transform_with_a_shuffle_is_refused_before_it_writes(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    job = made(local_job, Transform(function="risky:shuffled"), code)
    write(broker, job.spec.source.topics[0], 0)
    job.start()
    assert job.await_end() == 1, job.log()
    termination = job.termination()
    assert termination is not None
    assert "spec.onTransformError does not work with this transform" in termination.message
    assert visibility.records(broker, job.spec.sink.topic) == []
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
