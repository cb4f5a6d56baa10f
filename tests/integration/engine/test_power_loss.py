"""The node of the volume loses power: what the disk has is the state that the document names."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.transform import OutputMode, Transform
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.volume import Disk, disk
from tests.support.kafka import visibility
from tests.support.patience import until

pytestmark = pytest.mark.spark

_MODULE = """
from pyspark.sql import functions as f

def totals(source):
    words = source.select(f.col("value").cast("string").alias("word")).groupBy("word").count()
    return words.select("word", f.concat_ws(" ", "word", "count").alias("value"))
"""
_ROUNDS = 40


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Disk]:
    """The volume of the job's state."""
    with disk(tmp_path / "disk.image", tmp_path / "query") as made:
        yield made


def test_state_that_a_document_names_is_on_the_disk(
    local_job: LocalJobs, volume: Disk, broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "words.py").write_text(_MODULE)
    transform = Transform(function="words:totals", output_mode=OutputMode.UPDATE)
    job = local_job(transform=transform, code=tmp_path / "code", stateful=True, max_offsets=8)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(_ROUNDS):
        producer.produce(job.spec.source.topics[0], value=f"w{number % 4}")
    assert producer.flush(30) == 0
    for attempt in (1, 2):
        job.start(fault=f"after-write@attempt={attempt},checkpoint={2 * attempt}")
        assert job.await_end() == -signal.SIGKILL, job.log()
        volume.lose_power()
    job.start()
    wanted = {f"w{number} {_ROUNDS // 4}" for number in range(4)}

    def written() -> list[str]:
        return [(value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic)]

    until(lambda: wanted <= set(written()) or time.sleep(0.5))
    assert job.drain() == 0, job.log()
    found = written()
    assert len(found) == len(set(found)), "a count was written twice"
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
