"""When a checkpoint begins and when it is due, with and without a lead."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.schedule import CheckpointSchedule
from tests.support.jobs.plain_job import plain_spec

CAP = 100
JOB = Job(
    namespace="n",
    name="job",
    uid="uid",
    generation=1,
    attempt=1,
    spec=plain_spec(
        source=Source(topics=("in",), group_id="g", max_offsets_per_checkpoint=CAP),
        engine=Engine.CONTINUOUS,
        checkpoint_interval_seconds=4,
    ),
)


class Rig:
    """A schedule over a clock and a backlog of the test's."""

    def __init__(self, *, lead: float, interval: int = 4) -> None:
        self.now, self.backlog, self.idle, self.alone_until = 100.0, 10, 0, 0.0
        enumerator: Any = SimpleNamespace(discover_if_due=lambda: None, plan=self.plan)
        coordinator: Any = SimpleNamespace(forget_settled=self.look_idle, renew=lambda: None)
        self.schedule = CheckpointSchedule(
            replace(JOB, spec=replace(JOB.spec, checkpoint_interval_seconds=interval)), enumerator=enumerator,
            coordinator=coordinator, idle_work=lambda: nullcontext(True), lead=lead,
            alone_until=lambda: self.alone_until, clock=lambda: self.now,
        )  # fmt: skip

    def plan(self) -> tuple[KafkaPartitionSplit, ...]:
        return (KafkaPartitionSplit(TopicPartition("in", 0), 0, self.backlog),)

    def look_idle(self) -> None:
        self.idle += 1

    def at(self, now: float) -> float | None:
        """Seconds from this moment's plan to its barrier; None where nothing is planned."""
        self.now = now
        return None if self.schedule.next_splits() is None else self.schedule.seconds_to_barrier


def test_without_a_lead_a_checkpoint_is_due_when_it_begins() -> None:
    rig = Rig(lead=0.0)
    assert [rig.at(now) for now in (100, 101, 103.9, 104.5, 108.4, 108.5)] == [0, None, None, 0, None, 0]


def test_with_a_lead_it_begins_before_it_is_due() -> None:
    rig = Rig(lead=1.0)
    assert [rig.at(now) for now in (100, 102.9, 103.0)] == [0, None, 1.0]
    assert rig.schedule.seconds_left == pytest.approx(4.0), "the next lead begins three seconds behind the barrier"
    assert [rig.at(now) for now in (106.9, 107.25, 111.5)] == [None, 0.75, 0.5]


def test_a_lead_longer_than_the_interval_begins_at_once() -> None:
    rig = Rig(lead=5.0)
    assert [rig.at(now) for now in (100, 100.5, 104.5)] == [0, 3.5, 3.5]


def test_a_checkpoint_that_becomes_final_is_alone_but_not_when_the_next_is_due() -> None:
    rig = Rig(lead=5.0)
    assert rig.at(100) == 0
    rig.alone_until = 101.0
    assert rig.at(100.5) is None
    assert rig.schedule.seconds_left == pytest.approx(0.5)
    assert rig.at(101.0) == 3.0
    rig.alone_until = 110.0
    assert rig.schedule.seconds_left == pytest.approx(7.0), "it is due"
    assert [rig.at(now) for now in (107.9, 108.0)] == [None, 0]


def test_a_backlog_waits_for_nothing() -> None:
    rig = Rig(lead=1.0)
    rig.backlog, rig.alone_until = CAP, 200.0
    assert [rig.at(now) for now in (100, 100.5)] == [0, 0]


def test_a_backlog_has_no_pauses_and_no_lead() -> None:
    rig = Rig(lead=1.0)
    rig.backlog = CAP
    assert [rig.at(now) for now in (100, 100.5, 101)] == [0, 0, 0]


def test_records_that_come_late_are_read_as_soon_as_they_are_seen() -> None:
    rig = Rig(lead=1.0)
    rig.backlog = 0
    assert rig.at(100) is None
    assert rig.schedule.seconds_left == pytest.approx(0.25)
    assert [rig.at(now) for now in (100.1, 100.3)] == [None, None]
    rig.backlog = 1
    assert rig.at(100.6) == 0, "a checkpoint was due since the begin"
    rig.backlog = 0
    assert [rig.at(now) for now in (103.7, 104.1)] == [None, None]
    rig.backlog = 1
    assert rig.at(104.4) == pytest.approx(0.2), "it is due four seconds behind the last barrier"


def test_a_job_without_records_writes_its_idle_document() -> None:
    rig = Rig(lead=1.0)
    rig.at(100)
    rig.backlog = 0
    assert [rig.at(now) for now in (104, 109, 111)] == [None, None, None]
    assert rig.idle == 1


def test_checkpoints_that_end_early_do_not_move_the_next_barrier_away() -> None:
    rig = Rig(lead=5.0, interval=1)
    assert [rig.at(100 + number / 10) for number in range(5)] == pytest.approx([0, 0.9, 1, 1, 1])
