"""kill -9 of the driver at each step of the protocol, and a restart with another parallelism: every record once."""

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

# Every step is tested on the cluster (tests/e2e), and without Spark with every rescale (tests/integration/protocol).
# Here are the two steps after which the engine has most to repeat.
CASES = [
    pytest.param((Engine.MICRO_BATCH, ProtocolStep.BEFORE_FLUSH, 3), id="before-flush-then-up"),
    pytest.param((Engine.MICRO_BATCH, ProtocolStep.BETWEEN_COMMITS, 1), id="between-commits-then-down"),
    pytest.param((Engine.CONTINUOUS, ProtocolStep.AFTER_FLUSH, 3), id="continuous-after-flush-then-up"),
    pytest.param((Engine.CONTINUOUS, ProtocolStep.BETWEEN_COMMITS, 1), id="continuous-between-commits-then-down"),
]


@pytest.mark.parametrize("case", CASES)
def test_a_crash_loses_and_repeats_nothing(
    case: tuple[Engine, ProtocolStep, int], local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    engine, step, parallelism = case
    job = local_job(max_offsets=3000, engine=engine)
    source, sink, prefix = job.spec.source.topics[0], job.spec.sink.topic, job.spec.sink.transactional_id_prefix
    produce(broker, source, 0, 9000)
    job.start(fault=f"{step}@attempt=1,checkpoint={CHECKPOINT_OF_THE_FAULT}")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    written = step not in (ProtocolStep.BEFORE_FLUSH, ProtocolStep.AFTER_FLUSH)
    assert document.checkpoint_id == CHECKPOINT_OF_THE_FAULT - (not written)
    # Nothing uncommitted may be visible meanwhile, and nothing committed twice.
    seen = visibility.numbers(broker, sink)
    assert len(seen) == len(set(seen))
    assert len(seen) <= CHECKPOINT_OF_THE_FAULT * 3000
    produce(broker, source, 9000, 1000)
    job.start(parallelism=parallelism)
    job.await_records_in(10_000)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, prefix) == []
    assert sorted(visibility.numbers(broker, sink)) == list(range(10_000))
    last = job.document()
    assert last is not None
    assert last.counters.records_out == 10_000
    assert last.parallelism == parallelism
    assert last.drained


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
