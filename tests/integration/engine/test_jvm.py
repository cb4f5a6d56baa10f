"""The driver's JVM ends by itself or is frozen, at any step of an attempt: the attempt ends and says so."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.source import DEFAULT_MAX_OFFSETS
from sparkapp.model.job.spec import Engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob, produce
from tests.support.kafka import visibility
from tests.support.patience import until

pytestmark = pytest.mark.spark

RECORDS = 1000


def require_spark_died(job: LocalJob) -> None:
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("SparkDied", False), termination
    assert "signal 9" in termination.message


def require_each_once_by_another_attempt(job: LocalJob, broker: str, client: TransactionClient) -> None:
    job.start(alone=True)
    job.await_records_in(RECORDS)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(RECORDS))


@pytest.mark.parametrize("millis", [0, 50], ids=["two-phase", "local"])
def test_a_jvm_that_ends_while_its_job_of_the_continuous_engine_runs(
    local_job: LocalJobs, broker: str, client: TransactionClient, millis: int
) -> None:
    job = local_job(engine=Engine.CONTINUOUS, max_offsets=DEFAULT_MAX_OFFSETS)
    job.spec = replace(job.spec, commit_interval_millis=millis)
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start(alone=True)
    job.await_records_in(RECORDS)
    os.kill(job.jvm(), signal.SIGKILL)
    require_spark_died(job)
    require_each_once_by_another_attempt(job, broker, client)


def test_a_jvm_that_ends_while_its_job_starts(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    job = local_job(engine=Engine.CONTINUOUS)
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start(alone=True)
    until(lambda: "the JVM is up" in job.log(10_000))
    os.kill(job.jvm(), signal.SIGKILL)
    require_spark_died(job)
    require_each_once_by_another_attempt(job, broker, client)


def test_a_start_whose_jvm_is_frozen_has_a_deadline(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(engine=Engine.CONTINUOUS)
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start(fault="start:10")
    until(lambda: "checked brokers and code" in job.log(10_000))
    os.kill(job.jvm(), signal.SIGSTOP)
    try:
        assert job.await_end(120) == 1
        termination = job.termination()
    finally:
        job.kill()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("StreamStalled", False), termination
    assert "it was in the start of" in termination.message
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert visibility.records(broker, job.spec.sink.topic) == []
