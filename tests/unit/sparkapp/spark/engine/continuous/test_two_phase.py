"""When an open checkpoint has its barrier, and how far it may be read until then."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.engine.continuous.two_phase import TwoPhasePace
from sparkapp.spark.engine.schedule import CheckpointSchedule
from sparkapp.spark.reporting.liveness import StreamLiveness
from tests.support.clock import FakeClock
from tests.support.fakes.limited_source import LimitedSource
from tests.support.jobs.plain_job import plain_spec

A, B = TopicPartition("in", 0), TopicPartition("in", 1)
SPLITS = (KafkaPartitionSplit(A, 10, 14), KafkaPartitionSplit(B, 5, 5))
CAP = 104
SOURCE = Source(topics=("in",), group_id="g", max_offsets_per_checkpoint=CAP)
JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=1,
    spec=plain_spec(source=SOURCE, engine=Engine.CONTINUOUS, parallelism=2),
)  # fmt: skip


class Pipeline:
    """Notes what the pace has it do."""

    def __init__(self) -> None:
        self.oldest: int | None = None
        self.takes_next, self.is_open = True, False
        self.begun: list[Any] = []
        self.barriers = 0
        self.is_unseen = False

    def begin(self, splits: object, limits: object) -> None:
        self.begun.append(limits)
        self.oldest, self.takes_next, self.is_open = 7, False, limits is not None

    def barrier(self) -> None:
        self.barriers += 1
        self.is_open = False

    def look(self) -> None:
        """Nothing is read."""

    def give_up_unseen(self) -> None:
        if self.is_unseen:
            self.oldest = None

    def advance(self, seconds: float, *, draining: bool) -> None:
        """No answer comes."""


class Rig:
    """The pace over a schedule and a pipeline of the test's."""

    def __init__(self, source: Source = SOURCE, sink: Sink = JOB.spec.sink, **stops: int) -> None:
        enumerator: Any = SimpleNamespace(finished=False, stops={A: stops["a"], B: stops["b"]} if stops else {})
        unused: Any = None
        self.pipeline = Pipeline()
        coordinator: Any = SimpleNamespace(job=replace(JOB, spec=replace(JOB.spec, source=source, sink=sink)))
        given: PaceParts[Any] = PaceParts(
            server=unused, enumerator=enumerator, coordinator=coordinator, completed=lambda *_: None,
            await_subtasks=lambda: None, liveness=StreamLiveness(), places=lambda _: unused,
        )  # fmt: skip
        self.pace = TwoPhasePace(
            given, may_complete=lambda: True, spark=unused, subtasks=unused, scale=lambda: None,
            report=lambda **_: None,
        )  # fmt: skip
        self.lead = self.pace._schedule._lead
        self.schedule = SimpleNamespace(seconds_to_barrier=0.0, seconds_left=1.0, next_splits=lambda: SPLITS)
        self.rescaling = SimpleNamespace(holds_back=False, advance=lambda: None)
        parts: Any = self.pace
        schedule, self.pipeline.alone_until = parts._schedule, 123.0
        parts._schedule, parts._pipeline, parts._rescaling = self.schedule, self.pipeline, self.rescaling
        self.alone_until = schedule._alone_until()


def test_a_checkpoint_that_begins_before_it_is_due_is_open_until_it_is() -> None:
    rig = Rig()
    rig.schedule.seconds_to_barrier = 0.5
    rig.pace.step(draining=False)
    assert rig.pipeline.begun == [{A: 64, B: 55}], "the cap's rest, divided among the partitions"
    rig.pace.step(draining=False)
    assert rig.pipeline.barriers == 0
    rig.schedule.seconds_to_barrier = 0.0
    rig.pace.step(draining=False)
    assert rig.pipeline.barriers == 1
    rig.pace.step(draining=False)
    assert rig.pipeline.barriers == 1


def test_a_stop_does_not_wait_for_a_checkpoint_that_no_subtask_has_seen() -> None:
    rig = Rig()
    rig.pace.step(draining=False)
    rig.pipeline.is_unseen = True
    assert rig.pace.step(draining=False), "the executors may come"
    assert not rig.pace.step(draining=True)


def test_a_checkpoint_that_becomes_final_is_alone() -> None:
    assert Rig().alone_until == 123.0


def test_a_checkpoint_that_is_due_has_fixed_ranges() -> None:
    rig = Rig()
    rig.pace.step(draining=False)
    assert rig.pipeline.begun == [None]
    assert rig.pipeline.barriers == 0


@pytest.mark.parametrize("reason", ["drain", "rescale"])
def test_a_stop_and_a_rescale_do_not_wait_until_it_is_due(reason: str) -> None:
    rig = Rig()
    rig.schedule.seconds_to_barrier = 0.5
    rig.pace.step(draining=False)
    rig.rescaling.holds_back = reason == "rescale"
    assert rig.pace.step(draining=reason == "drain")
    assert rig.pipeline.barriers == 1


def test_a_bounded_job_reads_up_to_its_stops_and_does_not_wait_there() -> None:
    rig = Rig(a=20, b=5)
    rig.schedule.seconds_to_barrier = 0.5
    rig.pace.step(draining=False)
    assert rig.pipeline.begun == [{A: 20, B: 5}]
    rig = Rig(a=14, b=5)
    rig.schedule.seconds_to_barrier = 0.5
    rig.pace.step(draining=False)
    assert rig.pipeline.begun == [None]


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, True),
        ({"max_rate_per_partition": 5}, False),
        ({"max_records_per_split": 5}, False),
        ({"max_drift_seconds": 5}, False),
        ({"max_out_of_orderness_seconds": 0}, False),
    ],
)
def test_where_the_driver_plans_all_ranges_a_checkpoint_begins_when_it_is_due(
    changes: dict[str, int], is_open: bool
) -> None:
    assert bool(Rig(replace(SOURCE, **changes)).lead) is is_open  # type: ignore[arg-type]


@pytest.mark.parametrize(("timeout", "seconds"), [(900, 1.0), (0, 1.0), (5, 0.5), (1, 0.1)])
def test_a_checkpoint_is_open_for_a_small_part_of_a_transactions_time_out(timeout: int, seconds: float) -> None:
    rig = Rig(sink=replace(JOB.spec.sink, transaction_timeout_seconds=timeout))
    assert rig.lead == pytest.approx(seconds)


@pytest.mark.parametrize(("rate", "millis"), [(1, 20), (3, 100), (19, 100), (1, 10_000)])
def test_plans_without_records_are_followed_by_others_after_a_pause(rate: int, millis: int) -> None:
    """The rate leaves less than a record to a plan."""
    clock = FakeClock()
    source = LimitedSource(rate, interval_millis=millis, clock=clock)
    rig = Rig()
    parts: Any = rig.pace
    coordinator: Any = SimpleNamespace(forget_settled=lambda: None, renew=lambda: None)
    parts._enumerator = source.enumerator
    parts._schedule = CheckpointSchedule(
        source.job, enumerator=source.enumerator, coordinator=coordinator, idle_work=lambda: nullcontext(True),
        clock=clock,
    )  # fmt: skip

    def advance(seconds: float, *, draining: bool) -> None:
        clock.sleep(seconds)

    rig.pipeline.advance = advance  # type: ignore[method-assign]
    rig.pipeline.begin = lambda splits, _: source.complete(splits)  # type: ignore[method-assign, assignment]
    while clock.now < 60:
        assert rig.pace.step(draining=False)
    assert source.read == pytest.approx(rate * 60, abs=rate * max(1, millis / 1000) + 1)
    assert len(clock.slept) <= 60 / 0.009
