"""kill -9 of the driver, and a restart with another parallelism; a drain and a resume: every record once."""

from __future__ import annotations

import signal

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.spec import Engine
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

CHECKPOINT_OF_THE_FAULT = 2


def test_a_crash_between_the_commits_loses_and_repeats_nothing(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    """Every step is tested on the cluster (``tests/e2e``), and without Spark with every rescale
    (``tests/integration/protocol``). Of this engine an Arrow function's test has the step before the document.
    """
    job = local_job(max_offsets=3000, engine=Engine.CONTINUOUS)
    source, sink, prefix = job.spec.source.topics[0], job.spec.sink.topic, job.spec.sink.transactional_id_prefix
    produce(broker, source, 0, 9000)
    job.start(fault=f"{ProtocolStep.BETWEEN_COMMITS}@attempt=1,checkpoint={CHECKPOINT_OF_THE_FAULT}")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    assert document.checkpoint_id == CHECKPOINT_OF_THE_FAULT
    # Nothing uncommitted may be visible meanwhile, and nothing committed twice.
    seen = visibility.numbers(broker, sink)
    assert len(seen) == len(set(seen))
    assert len(seen) <= CHECKPOINT_OF_THE_FAULT * 3000
    produce(broker, source, 9000, 1000)
    job.start(parallelism=1)
    job.await_records_in(10_000)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, prefix) == []
    assert sorted(visibility.numbers(broker, sink)) == list(range(10_000))
    last = job.document()
    assert last is not None
    assert (last.counters.records_out, last.parallelism, last.drained) == (10_000, 1, True)


@pytest.mark.parametrize("engine", [Engine.MICRO_BATCH, Engine.CONTINUOUS])
def test_a_drain_stops_at_a_checkpoint_and_a_resume_continues(
    engine: Engine, local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    job = local_job(max_offsets=2000, engine=engine)
    produce(broker, job.spec.source.topics[0], 0, 6000)
    job.start()
    job.await_records_in(2000)
    assert job.drain() == 0, job.log()
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "Drained"
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    job.start(parallelism=1)
    job.await_records_in(6000)
    assert job.drain() == 0
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(6000))
