"""Records of a megabyte pass a job whose Python workers hold some of them at a time, not a checkpoint of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from clusterjob.background import Background
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

RECORDS, SIZE = 500, 990_000
BOUND_MIB = 300
"""A worker without work has 80 MiB; prefetch and queue 64 MiB each, some batches of 16 MiB. All records have 480."""


def test_a_worker_holds_a_few_batches(local_job: LocalJobs, broker: str) -> None:
    job = local_job(partitions=1, parallelism=1)
    producer = Producer({"bootstrap.servers": broker, "message.max.bytes": 1_100_000, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(job.spec.source.topics[0], number.to_bytes(4, "big") + bytes(SIZE - 4), b"k", partition=0)
        producer.poll(0)
        if number % 50 == 49:
            assert producer.flush(60) == 0
    job.start(alone=True)
    with PeakOfWorkers(job) as peak:
        job.await_records_in(RECORDS)
    assert job.drain() == 0, job.log()
    found = visibility.records(broker, job.spec.sink.topic)
    assert [int.from_bytes(value[:4], "big") for value in found] == list(range(RECORDS))
    assert 100 < peak.mib < BOUND_MIB


class PeakOfWorkers(Background):
    """The most memory that a Python worker of the attempt has had at a time; workers end with their task.

    Only Spark's workers count. A process that the JVM starts has the JVM's memory until it runs its own program.

    :ivar mib: of the worker that had the most.
    """

    def __init__(self, job: LocalJob) -> None:
        super().__init__("peak-of-workers")
        self._job = job
        self.mib = 0

    def _run(self) -> None:
        while not self._ending.wait(0.05):
            self.mib = max([self.mib, *map(_peak_mib, self._job.workers())])


def _peak_mib(worker: int) -> int:
    try:
        status = Path(f"/proc/{worker}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    peak = next((line for line in status.splitlines() if line.startswith("VmHWM")), None)
    return int(peak.split()[1]) // 1024 if peak else 0
