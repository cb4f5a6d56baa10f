"""The load in a driver's report, of each engine and pace, against what the test writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.model.job.sections.source import DEFAULT_MAX_OFFSETS
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from sparkapp.model.report import Load
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, LocalJob, produce

pytestmark = pytest.mark.spark

_SLOW = """
import time

def slow(batch):
    time.sleep(0.001 * batch.num_rows)
    return batch
"""
RATE = 200
"""Records a second; the function takes a millisecond for each."""


def awaited(job: LocalJob, wanted: Callable[[Load], bool], work: Callable[[], None] = lambda: None) -> Load:
    """The first load of the kind; ``work`` is done between two looks."""
    end, seen = time.monotonic() + START_SECONDS, None
    while time.monotonic() < end:
        work()
        report = job.report()
        seen = None if report is None else report.load
        if seen is not None and wanted(seen):
            return seen
        time.sleep(0.1)
    raise AssertionError(f"{seen}\n{job.log()}")


@pytest.mark.parametrize("pace", ["MicroBatch", "Continuous", "Local"])
def test_the_load_is_what_arrives_what_is_read_and_how_busy_subtasks_are(
    local_job: LocalJobs, broker: str, tmp_path: Path, pace: str
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / f"slow_{pace.lower()}.py").write_text(_SLOW)
    job = local_job(
        engine=Engine.MICRO_BATCH if pace == "MicroBatch" else Engine.CONTINUOUS, max_offsets=DEFAULT_MAX_OFFSETS,
        code=code, transform=Transform(arrow=ArrowTransform(function=f"slow_{pace.lower()}:slow")),
    )  # fmt: skip
    if pace == "Local":
        job.spec = replace(job.spec, commit_interval_millis=50)
    topic, written = job.spec.source.topics[0], 0

    def write() -> None:
        nonlocal written
        produce(broker, topic, written, RATE // 10)
        written += RATE // 10

    write()
    job.start()
    job.await_records_in(written)
    found = awaited(job, lambda load: load.read_per_second > RATE / 4 and load.busy_percent > 2, write)
    assert found.partitions == len(found.heaviest) == 4
    assert {each.topic for each in found.heaviest} == {topic}
    assert RATE / 8 < found.arrived_per_second < 4 * RATE
    idle = awaited(job, lambda load: load.read_per_second == 0 and load.lag == 0)
    assert idle.arrived_per_second == 0
    if pace != "MicroBatch":
        assert idle.busy_percent <= 2, "the subtasks wait for records"
    assert job.drain() == 0
