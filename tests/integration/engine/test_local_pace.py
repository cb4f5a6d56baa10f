"""The local pace on a real broker and a real Spark: subtasks commit by themselves, and each record counts once."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.source import DEFAULT_MAX_OFFSETS
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spark_settings import FORCED, FORCED_CONTINUOUS
from sparkapp.model.job.spec import Engine
from sparkapp.model.job.startup import Stopping, StoppingMode
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob, produce, settings_of_a_cluster, signal_all
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

RECORDS = 3000
MILLIS = 50


def of_local_pace(make: LocalJobs, millis: int = MILLIS, **fields: object) -> LocalJob:
    job = make(engine=Engine.CONTINUOUS, max_offsets=DEFAULT_MAX_OFFSETS, **fields)
    job.spec = replace(job.spec, commit_interval_millis=millis)
    return job


@pytest.fixture
def tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are tried as often as in a cluster; local Spark gives up at the first failure by default."""
    most = (FORCED | FORCED_CONTINUOUS)["spark.task.maxFailures"]
    for name, value in settings_of_a_cluster(tmp_path, master=f"local[2,{most}]").items():
        monkeypatch.setenv(name, value)


def require_each_once(job: LocalJob, broker: str, client: TransactionClient, count: int) -> None:
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(count))


def test_paces_and_engines_continue_each_other(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    job = of_local_pace(local_job)
    expected = 0
    for engine, millis in (
        (Engine.CONTINUOUS, 0), (Engine.CONTINUOUS, MILLIS), (Engine.MICRO_BATCH, 0), (Engine.CONTINUOUS, MILLIS),
        (Engine.CONTINUOUS, 0),
    ):  # fmt: skip
        produce(broker, job.spec.source.topics[0], expected, RECORDS)
        expected += RECORDS
        job.spec = replace(job.spec, engine=engine, commit_interval_millis=millis)
        job.start()
        document = job.await_records_in(expected)
        assert (document.local is not None) == bool(millis)
        assert job.drain() == 0, job.log()
    require_each_once(job, broker, client, expected)


def test_a_bounded_job_finishes(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    job = of_local_pace(local_job, stopping=Stopping(mode=StoppingMode.LATEST))
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start()
    assert job.await_end() == 0, job.log()
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "Finished"
    require_each_once(job, broker, client, RECORDS)


def test_killed_workers_and_frozen_workers_that_thaw(
    tried_again: None, local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    """Frozen once for less than the driver's patience, once for longer."""
    job = of_local_pace(local_job)
    expected = 0

    def write() -> None:
        nonlocal expected
        produce(broker, job.spec.source.topics[0], expected, RECORDS)
        expected += RECORDS

    write()
    job.start(alone=True)
    job.await_records_in(1)
    killed = job.workers()
    assert killed
    for _ in range(5):  # more often than Spark's default allows in the life of a task
        signal_all(job.workers(), signal.SIGKILL)
        write()
        job.await_records_in(expected)
    assert not killed & job.workers()

    signal_all(job.workers(), signal.SIGSTOP)
    write()
    signal_all(job.workers(), signal.SIGCONT)
    job.await_records_in(expected)
    frozen = job.workers()
    signal_all(frozen, signal.SIGSTOP)
    write()
    job.await_records_in(expected)
    assert "has been silent for 10 s" in job.log(1000)
    signal_all(frozen, signal.SIGCONT)
    write()
    job.await_records_in(expected)
    assert job.drain() == 0, job.log()
    assert job.attempt == 1
    require_each_once(job, broker, client, expected)


def test_killed_drivers(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    """Their subtasks have committed what is in no document: after a first start, and after a recovery."""
    job = of_local_pace(local_job)
    for turn in range(2):
        produce(broker, job.spec.source.topics[0], turn * RECORDS, RECORDS)
        job.start(alone=True)
        visibility.await_count(broker, job.spec.sink.topic, turn * RECORDS + 1, seconds=300)
        job.kill()
    job.start()
    visibility.await_count(broker, job.spec.sink.topic, 2 * RECORDS, seconds=300)
    assert job.drain() == 0, job.log()
    require_each_once(job, broker, client, 2 * RECORDS)


def test_a_function_that_always_fails_ends_the_attempt(
    local_job: LocalJobs, broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text("def fail(batch):\n    raise ValueError('no such thing')\n")
    transform = Transform(arrow=ArrowTransform(function="failing:fail"))
    job = of_local_pace(local_job, code=tmp_path, transform=transform)
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start()
    assert job.await_end() != 0
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "TransformFailed"
    assert f"topic {job.spec.source.topics[0]}, partition " in termination.message
    assert ": ValueError: no such thing (failing.py:2 in fail); it fails for other records, too" in termination.message
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert visibility.numbers(broker, job.spec.sink.topic) == []
