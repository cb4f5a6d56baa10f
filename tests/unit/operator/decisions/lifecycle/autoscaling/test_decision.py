"""The arithmetic of the autoscaler, and each finding that keeps the parallelism."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkasparkjob_operator.decisions.lifecycle.autoscaling.decision import (
    NO_ROOM_SECONDS,
    REFUSED_SECONDS,
    ROOM_AFTER_RESTART_SECONDS,
    ROOM_SECONDS,
    Situation,
    Verdict,
    decide,
)
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.demand import Demand, useful
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.history import History
from kafkasparkjob_operator.status.scaling_reason import ScalingReason
from kafkasparkjob_operator.workload import Autoscaler
from kafkasparkjob_operator.workload.autoscaler_fields import ExcludedPeriod
from sparkapp.model.report import Load, PartitionLoad

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
POLICY = Autoscaler(max_parallelism=8, stabilization_seconds=30, scale_down_delay_seconds=600, catch_up_seconds=300)
AGO = NOW - timedelta(hours=1)
WANTED = History(of_spec=2, above_since=NOW - timedelta(seconds=30))


def load(*arrived: int, read: int = 1000, busy: int = 50, lags: tuple[int, ...] = (), seconds: float = 3.0) -> Load:
    """What is read is spread as evenly as the subtasks allow."""
    rows = tuple(
        PartitionLoad("in", number, lags[number] if lags else 0, rate, read // len(arrived))
        for number, rate in enumerate(arrived)
    )
    return Load(
        window_millis=round(seconds * 1000), busy_percent=busy, lag=sum(lags), arrived_per_second=sum(arrived),
        read_per_second=read, partitions=len(rows), heaviest=tuple(sorted(rows, key=lambda each: -each.lag)),
    )  # fmt: skip


def situation(found: Load | None, **fields: Any) -> Situation:
    runs = fields.pop("runs", 2)
    demand = None if found is None else Demand(load=found, runs=runs, interval=1.0, divisible=False)
    return Situation(
        **{
            "demand": demand, "runs": runs, "wanted": runs, "of_spec": 2, "in_place": True, "running_since": AGO,
            **fields,
        }
    )  # fmt: skip


def judged(found: Load | None, *, policy: Autoscaler = POLICY, history: History = WANTED, **fields: Any) -> Verdict:
    return decide(policy, situation(found, **fields), history, NOW)


EVEN = (500,) * 8


@pytest.mark.parametrize(
    ("partitions", "low", "high", "expected"),
    [
        (12, 1, 100, [1, 2, 3, 4, 6, 12]), (12, 5, 100, [5, 6, 12]), (12, 1, 5, [1, 2, 3, 4]),
        (7, 1, 7, [1, 2, 3, 4, 7]), (1, 1, 8, [1]), (0, 1, 8, [1]), (3, 8, 8, [8]), (120, 50, 60, [50, 60]),
    ],
)  # fmt: skip
def test_only_parallelisms_that_relieve_the_busiest_subtask(partitions, low, high, expected):
    assert list(useful(partitions, low=low, high=high)) == expected


def test_subtasks_that_share_partitions_have_every_parallelism():
    assert list(useful(2, low=1, high=5, divisible=True)) == [1, 2, 3, 4, 5]


def test_capacity_is_that_of_the_busy_share_or_of_a_subtask_that_was_behind():
    assert Demand(load=load(*EVEN, read=1000, busy=50), runs=2, interval=1.0).capacity == 1000
    behind = load(*EVEN, read=1600, busy=50, lags=(9000,) * 8)
    assert Demand(load=behind, runs=2, interval=1.0).capacity == 800
    begins = load(*EVEN, read=1600, busy=80, lags=(1600,) * 8)
    assert Demand(load=begins, runs=2, interval=1.0).capacity == 1000, "it was not behind when the window began"


def test_capacity_counts_the_partitions_without_a_row():
    rows = tuple(PartitionLoad("in", number, 9000, 100, 50) for number in range(4))
    many = Load(
        window_millis=3000, busy_percent=100, lag=8 * 9000, arrived_per_second=800, read_per_second=400, partitions=8,
        heaviest=rows,
    )  # fmt: skip
    assert Demand(load=many, runs=2, interval=1.0).capacity == 200


def test_the_busiest_subtask_has_the_partitions_that_it_owns():
    uneven = Demand(load=load(900, 100, 100, 100, 100, 100, 100, 100), runs=2, interval=1.0)
    sums = [uneven.busiest(each, lambda row: row.arrived_per_second) for each in (1, 2, 4, 8)]
    assert sums == [1600, 1200, 1000, 900]


def test_partitions_without_a_row_are_spread_evenly():
    many = replace(load(900, 100), partitions=100, arrived_per_second=1000 + 98 * 10)
    demand = Demand(load=many, runs=2, interval=1.0)
    assert demand.busiest(100, lambda row: row.arrived_per_second) == 900
    assert demand.busiest(1, lambda row: row.arrived_per_second) == 1980


@pytest.mark.parametrize(
    ("arrived", "expected", "changes"),
    [(4000, 8, True), (2000, 4, True), (1720, 3, True), (1700, 3, False), (1600, 3, False), (1200, 2, False)],
)
def test_more_subtasks_for_a_busiest_subtask_above_the_limit(arrived, expected, changes):
    verdict = judged(load(*(arrived // 8,) * 8))
    assert (verdict.recommended, verdict.changes) == (expected, changes)


def test_a_backlog_counts_by_the_time_in_which_it_is_to_be_read():
    backlog = load(*(100,) * 8, read=2000, busy=100, lags=(60_000,) * 8)
    assert judged(backlog).recommended == 4
    quick = replace(POLICY, catch_up_seconds=60)
    assert judged(backlog, policy=quick).recommended == 8


def test_records_that_wait_for_the_checkpoint_are_no_backlog():
    assert judged(load(*(180,) * 8, lags=(540,) * 8)).reason is not ScalingReason.SCALED_UP


def test_the_decision_says_what_it_replaces():
    verdict = judged(load(*EVEN))
    history = verdict.history
    assert (verdict.reason, verdict.changes) == (ScalingReason.SCALED_UP, True)
    assert (history.parallelism, history.before, history.of_spec) == (8, 2, 2)
    assert (history.since, history.effective_since, history.capacity) == (NOW, None, 1000)


def test_a_need_counts_from_its_begin():
    first = judged(load(*EVEN), history=History(of_spec=2))
    assert (first.reason, first.history.above_since) == (ScalingReason.STABILIZING, NOW)
    assert judged(load(*EVEN), history=first.history).history.above_since == NOW


@pytest.mark.parametrize("name", ["running_since", "effective_since"])
def test_nothing_is_judged_shortly_after_a_start_or_a_rescale(name):
    moment = NOW - timedelta(seconds=29)
    history = replace(WANTED, since=AGO, parallelism=2, before=4, effective_since=AGO)
    if name == "effective_since":
        verdict = judged(load(*EVEN), history=replace(history, effective_since=moment))
    else:
        verdict = judged(load(*EVEN), history=history, running_since=moment)
    assert (verdict.reason, verdict.history.above_since) == (ScalingReason.STABILIZING, None)


def test_the_time_of_a_rescale_is_measured():
    decided = History(of_spec=2, parallelism=4, before=2, since=NOW - timedelta(seconds=7))
    verdict = judged(load(*EVEN), history=decided, runs=4)
    assert (verdict.history.rescale_seconds, verdict.history.effective_since) == (7, NOW)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({"refused": True}, REFUSED_SECONDS), ({}, ROOM_SECONDS), ({"in_place": False}, ROOM_AFTER_RESTART_SECONDS)],
)
def test_a_growth_without_room_is_taken_back_after_a_time(fields, limit):
    decided = History(of_spec=2, parallelism=8, before=2, since=NOW - timedelta(seconds=limit - 1))
    more = {"wanted": 8, "missing": "; Kubernetes refuses executors", "fits": 4, **fields}
    assert judged(load(*EVEN), history=decided, **more).reason is ScalingReason.RESCALING
    decided = replace(decided, since=NOW - timedelta(seconds=limit))
    verdict = judged(load(*EVEN), history=decided, **more)
    assert (verdict.reason, verdict.changes, verdict.history.parallelism) == (ScalingReason.NO_ROOM, True, 4)
    assert (verdict.history.no_room, verdict.history.no_room_since) == (5, NOW)


def test_a_parallelism_without_room_is_tried_again_later():
    refused = replace(WANTED, no_room=5, no_room_since=NOW - timedelta(seconds=NO_ROOM_SECONDS - 1))
    assert judged(load(*EVEN), history=refused).history.parallelism == 4, "less than that may have room"
    assert judged(load(*EVEN), history=refused, runs=4).reason is ScalingReason.NO_ROOM
    later = replace(refused, no_room_since=NOW - timedelta(seconds=NO_ROOM_SECONDS))
    assert judged(load(*EVEN), history=later).history.parallelism == 8


def test_no_growth_while_executors_wait():
    verdict = judged(load(*EVEN), missing="; 1 executor(s) wait: pod: Unschedulable: 0/3 nodes")
    assert (verdict.reason, verdict.changes) == (ScalingReason.NO_ROOM, False)
    assert "0/3 nodes" in verdict.message


def test_one_hot_partition_gets_no_more_subtasks_and_is_named():
    hot = load(3000, *[10] * 7, read=1040, busy=60, lags=(90_000, *[0] * 7))
    verdict = judged(hot)
    assert (verdict.reason, verdict.changes) == (ScalingReason.HOT_PARTITION, False)
    assert "partition 0 of topic in gets 3000 records/s" in verdict.message


def test_a_hot_partition_that_a_subtask_of_its_own_can_read_gets_it():
    verdict = judged(load(600, *[100] * 7, read=1000, busy=62))
    assert (verdict.reason, verdict.history.parallelism) == (ScalingReason.SCALED_UP, 8)


def test_at_its_maximum_a_job_says_so():
    verdict = judged(load(*(5000,) * 8, read=8000, busy=100), runs=8)
    assert verdict.reason is ScalingReason.AT_MAXIMUM, "all partitions have as much"
    bounded = replace(POLICY, max_parallelism=4)
    assert judged(load(*(900,) * 8, read=4000, busy=100), policy=bounded, runs=4).reason is ScalingReason.AT_MAXIMUM


def test_a_growth_that_is_not_enough_is_made_if_it_helps():
    bounded = replace(POLICY, max_parallelism=4)
    assert judged(load(*(900,) * 8), policy=bounded).history.parallelism == 4


def test_a_sink_that_takes_nothing_is_not_helped():
    verdict = judged(load(*EVEN, read=0, busy=100, lags=(50_000,) * 8))
    assert (verdict.reason, verdict.changes) == (ScalingReason.NOT_READING, False)


def test_a_growth_without_effect_is_not_followed_by_another():
    grown = History(of_spec=2, parallelism=4, before=2, since=AGO, effective_since=AGO, capacity=500)
    grown = replace(grown, above_since=NOW - timedelta(seconds=30))
    stuck = load(*EVEN, read=1050, busy=100, lags=(50_000,) * 8)
    assert judged(stuck, history=grown, runs=4).reason is ScalingReason.INEFFECTIVE
    helped = load(*EVEN, read=1500, busy=100, lags=(50_000,) * 8)
    assert judged(helped, history=grown, runs=4).reason is ScalingReason.SCALED_UP


def test_a_limited_rate_is_not_raised_by_more_subtasks():
    limited = load(*EVEN, read=800, busy=10, lags=(50_000,) * 8)
    assert judged(limited, max_rate=100).reason is ScalingReason.RATE_LIMITED
    assert judged(limited, max_rate=1000).reason is ScalingReason.SCALED_UP


@pytest.mark.parametrize("found", [load(*EVEN), load(*(10,) * 8, read=80, busy=4)])
def test_nothing_changes_within_an_excluded_period(found):
    policy = replace(POLICY, excluded_periods=(ExcludedPeriod(begins="11:30", ends="12:30"),))
    shrinks = replace(WANTED, below_since=AGO, below_most=1)
    verdict = judged(found, policy=policy, history=shrinks)
    assert (verdict.reason, verdict.changes) == (ScalingReason.EXCLUDED_PERIOD, False)


@pytest.mark.parametrize(
    ("days", "begins", "ends", "moment", "expected"),
    [
        ((), "11:00", "13:00", NOW, True), ((), "12:00", "12:01", NOW, True), ((), "11:00", "12:00", NOW, False),
        (("Sunday",), "11:00", "13:00", NOW, True), (("Monday",), "11:00", "13:00", NOW, False),
        ((), "22:00", "06:00", NOW, False), ((), "22:00", "06:00", NOW.replace(hour=23), True),
        (("Saturday",), "22:00", "06:00", NOW.replace(hour=5), True),
        (("Sunday",), "22:00", "06:00", NOW.replace(hour=5), False), ((), "00:00", "00:00", NOW, True),
    ],
)  # fmt: skip
def test_periods(days, begins, ends, moment, expected):
    assert ExcludedPeriod(days=days, begins=begins, ends=ends).includes(moment) is expected


def test_fewer_subtasks_wait_for_the_delay_and_for_the_most_that_was_needed():
    few = load(*(10,) * 8, read=80, busy=4)
    first = judged(few, history=History(of_spec=2, below_since=AGO, below_most=3), runs=8)
    assert (first.reason, first.history.parallelism) == (ScalingReason.SCALED_DOWN, 3)
    young = History(of_spec=2, below_since=NOW - timedelta(seconds=599), below_most=3)
    assert judged(few, history=young, runs=8).reason is ScalingReason.WAITS_TO_SHRINK


def test_a_fixed_number_of_executors_bounds_it():
    assert judged(load(*EVEN), places=4).history.parallelism == 4
    assert judged(load(*EVEN), places=2).reason is ScalingReason.AT_MAXIMUM


def test_an_idle_job_needs_the_least():
    idle = load(*(0,) * 8, read=0, busy=0)
    shrinks = History(below_since=AGO, of_spec=2)
    verdict = judged(idle, policy=replace(POLICY, min_parallelism=2), history=shrinks, runs=8)
    assert verdict.history.parallelism == 2


def test_another_parallelism_in_the_spec_ends_what_was_decided():
    decided = History(of_spec=7, parallelism=4, before=2, since=AGO, effective_since=AGO, rescale_seconds=9)
    verdict = judged(load(*(180,) * 8), history=decided)
    assert (verdict.history.parallelism, verdict.history.of_spec, verdict.history.rescale_seconds) == (0, 2, 9)
