"""The record for which a transform of the micro-batch engine fails is in the message; state leaves a range."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.transform import OutputMode, Transform
from sparkapp.model.report import Termination
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.jobs.risky import LOCATION, SQL, produce_numbers, risky_code
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

PARTITIONS, RECORDS = 3, 400
BAD = (1, 250)
NUMBER = BAD[0] * RECORDS + BAD[1]


def write(broker: str, topic: str) -> None:
    """One of the records is no number."""
    produce_numbers(broker, topic, partitions=PARTITIONS, records=RECORDS, bad=[BAD], text="ten\x1b[31m")


def failed(job: LocalJob) -> Termination:
    job.start()
    assert job.await_end() == 1, job.log()
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("TransformFailed", False), termination
    return termination


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return risky_code(tmp_path)


@pytest.mark.parametrize(
    "case",
    [
        (
            Transform(function="risky:numbers"),
            f"ValueError: invalid literal for int() with base 10: 'ten\\x1b[31m {NUMBER}' ({LOCATION})",
        ),
        (Transform(sql=SQL), "[CAST_INVALID_INPUT] "),
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
    place = f"topic {job.spec.source.topics[0]}, partition {partition}, offset {offset}, key b'k{NUMBER}': "
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
