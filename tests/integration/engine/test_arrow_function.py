"""``spec.transform.arrow`` through both engines: exactly once, and the same meaning of what the function does."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.spec import ArrowTransform, Engine, Transform
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

_MODULE = """
import pyarrow as pa
import pyarrow.compute as pc
from pathlib import Path

LOG = Path(__file__).with_name("log")


def note(what):
    with LOG.open("a") as log:
        log.write(what + "\\n")


def number_of(text):
    return int(text)


def parsed(batch):
    for text in batch.column("value").cast(pa.string()).to_pylist():
        number_of(text)
    return batch


class Thirds:
    '''Drops the multiples of three, and writes each other number twice.'''

    def __init__(self):
        note("opened")

    def __call__(self, batch):
        numbers = batch.column("value").cast(pa.string()).cast(pa.int64())
        thirds = pc.multiply(pc.divide(numbers, 3), 3)
        kept = batch.filter(pc.not_equal(numbers, thirds))
        return [kept, kept] if kept.num_rows else None

    def close(self):
        note("closed")
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "arrows.py").write_text(_MODULE)
    return folder


def test_a_function_that_drops_and_multiplies_is_exactly_once_over_crash_rescale_and_engines(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    arrow = ArrowTransform(factory="arrows:Thirds")
    job = local_job(engine=Engine.CONTINUOUS, transform=Transform(arrow=arrow), code=code, max_offsets=1000)
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    produce(broker, source, 0, 3000)
    job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    (code / "log").unlink()

    produce(broker, source, 3000, 999)
    job.spec = replace(job.spec, engine=Engine.AUTO)
    job.start(parallelism=3, alone=True)
    job.await_records_in(3999)
    assert "the Continuous engine has started: spec.engine is Auto" in job.log(1000)
    produce(broker, source, 3999, 1)  # nothing of this checkpoint is written
    job.await_records_in(4000)
    assert job.drain() == 0, job.log()
    assert Counter((code / "log").read_text().split()) == {"opened": 3, "closed": 3}, "once a subtask"

    job.spec = replace(job.spec, engine=Engine.MICRO_BATCH)
    produce(broker, source, 4000, 1000)
    job.start(parallelism=1, alone=True)
    job.await_records_in(5000)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, sink)) == sorted([n for n in range(5000) if n % 3] * 2)


def test_a_function_that_raises_names_line_and_offset_in_both_engines(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    arrow = ArrowTransform(function="arrows:parsed")
    job = local_job(transform=Transform(arrow=arrow), code=code, partitions=1, parallelism=1, max_offsets=10)
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    produce(broker, source, 0, 10)
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(source, key="k", value="ten")
    assert producer.flush(30) == 0
    for engine in (Engine.CONTINUOUS, Engine.MICRO_BATCH):
        job.spec = replace(job.spec, engine=engine)
        job.start(alone=True)
        assert job.await_end() == 1, job.log()
        termination = job.termination()
        assert termination is not None
        assert (termination.reason, termination.fatal) == ("TransformFailed", False), termination
        assert termination.message == (
            "ValueError: invalid literal for int() with base 10: 'ten' (arrows.py:15 in number_of),"
            f" while it read {source}-0 offset 10"
        )
        assert "return int(text)" in termination.log
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, sink)) == list(range(10))
