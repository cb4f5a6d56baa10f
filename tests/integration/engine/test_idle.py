"""A job that has nothing to read: its document has nothing left to settle, and it resumes with the next records."""

from __future__ import annotations

import time

import pytest

from sparkapp.clients.deadline import Deadline
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark


def test_an_idle_jobs_document_names_no_transaction_and_is_written_no_more(local_job: LocalJobs, broker: str) -> None:
    job = local_job()
    (topic,) = job.spec.source.topics
    produce(broker, topic, 0, 40)
    job.start()
    last = job.await_records_in(40)
    deadline = Deadline.after(START_SECONDS)
    while (found := job.document()) is None or found.committables:
        assert not deadline.expired, found
        time.sleep(0.2)
    assert (found.checkpoint_id, found.offsets, found.drained) == (last.checkpoint_id, last.offsets, False)
    written = job.state_file.read_text()
    time.sleep(3)
    assert job.state_file.read_text() == written, "once, not at each look for news"
    produce(broker, topic, 40, 20)
    job.await_records_in(60)
    assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(60))
