"""``sink.deliveryGuarantee: None`` in the engine: what an orderly end sends, and what becomes of refused records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

FIRST, SECOND = 400, 300


def test_none_sends_everything_at_an_orderly_end(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    """The clients would keep the records for four minutes; those of two checkpoints are in several workers."""
    job = local_job(delivery_guarantee=DeliveryGuarantee.NONE, parallelism=3)
    job.spec = replace(job.spec, sink=replace(job.spec.sink, properties={"linger.ms": "240000"}))
    produce(broker, job.spec.source.topics[0], 0, FIRST)
    job.start()
    first = job.await_records_in(FIRST)
    assert first.committables == ()
    produce(broker, job.spec.source.topics[0], FIRST, SECOND)
    second = job.await_records_in(FIRST + SECOND)
    assert second.checkpoint_id > first.checkpoint_id
    assert visibility.records(broker, job.spec.sink.topic) == [], "nothing is awaited at a checkpoint"
    assert job.drain() == 0, job.log()
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(FIRST + SECOND))
    assert client.list_transactions(job.spec.sink.transactional_id_prefix) == []


def test_none_ends_the_attempt_once_a_record_was_refused(
    local_job: LocalJobs, broker: str, make_topic: Callable[..., str]
) -> None:
    job = local_job(delivery_guarantee=DeliveryGuarantee.NONE)
    narrow = make_topic(2, "narrow", max_message_bytes="200")
    job.spec = replace(job.spec, sink=replace(job.spec.sink, topic=narrow))
    source = job.spec.source.topics[0]
    produce(broker, source, 0, 1, value="x" * 1000)
    job.start()
    job.await_records_in(1)
    deadline = Deadline.after(START_SECONDS)
    number = 1
    while job.process.poll() is None and not deadline.expired:  # type: ignore[union-attr]
        produce(broker, source, number, 8)
        number += 1
        time.sleep(1)
    assert job.await_end() == 1
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("PreCommitFailed", False)
    assert "not written again" in termination.remedy
