"""The continuous engine on a real broker and a real Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.spec import Engine
from sparkapp.model.job.startup import Stopping, StoppingMode
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

RECORDS = 3000


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
def test_an_orderly_end_sends_everything(guarantee: DeliveryGuarantee, local_job: LocalJobs, broker: str) -> None:
    job = local_job(engine=Engine.CONTINUOUS, delivery_guarantee=guarantee)
    if guarantee is DeliveryGuarantee.NONE:
        job.spec = replace(job.spec, sink=replace(job.spec.sink, properties={"linger.ms": "240000"}))
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start()
    job.await_records_in(RECORDS)
    assert job.drain() == 0, job.log()
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(RECORDS))


def test_a_bounded_job_finishes(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    job = local_job(engine=Engine.CONTINUOUS, max_offsets=1000, stopping=Stopping(mode=StoppingMode.LATEST))
    produce(broker, job.spec.source.topics[0], 0, RECORDS)
    job.start()
    assert job.await_end() == 0, job.log()
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "Finished"
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(RECORDS))
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
