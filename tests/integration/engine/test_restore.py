"""Going back to an earlier checkpoint through the whole engine: Spark's own log follows the document."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.model.checkpoint.retained import retained_key
from sparkapp.model.checkpoint.retained_codec import decode_retained
from sparkapp.model.job.sections.retention import Restore, Retention
from sparkapp.model.job.startup import Stopping, StoppingMode
from sparkapp.model.report import AttemptOutcome
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark


def test_a_job_goes_back_and_writes_again_what_it_read_since(local_job: LocalJobs, broker: str) -> None:
    job = local_job(stopping=Stopping(mode=StoppingMode.LATEST), max_offsets=400, partitions=1, parallelism=1)
    job.spec = replace(job.spec, retention=Retention(interval_seconds=1, count=50), checkpoint_interval_seconds=2)
    produce(broker, job.spec.source.topics[0], 0, 600)
    job.start()
    assert job.await_end() == 0
    kept = FolderRetainedStore.next_to(job.state_file).read()
    first = decode_retained(kept[retained_key(1)], key=retained_key(1), job_uid=job.uid)
    assert sum(first.offsets.values()) == 400

    job.spec = replace(job.spec, restore=Restore(checkpoint=1, nonce=1))
    job.start()
    assert job.await_end() == 0
    termination = job.termination()
    assert termination is not None
    assert termination.outcome is AttemptOutcome.FINISHED, "it read to the end that was fixed at its first start"
    expected = Counter({number: 1 + (number >= 400) for number in range(600)})
    assert Counter(visibility.numbers(broker, job.spec.sink.topic)) == expected
    document = job.document()
    assert document is not None
    assert (document.redeploy_nonce, document.finished) == (1, True)

    job.start()
    assert job.await_end() == 0
    assert Counter(visibility.numbers(broker, job.spec.sink.topic)) == expected, "the nonce has been served"
