"""The autoscaler over curves of load: it follows, it leaves alone, and it does not flap."""

from __future__ import annotations

from functools import cache

import pytest

from bench.autoscaler.curves import CURVES
from bench.autoscaler.drawing import drawn
from bench.autoscaler.simulation import Run
from kafkasparkjob_operator.status.scaling_reason import ScalingReason


@cache
def run_of(name: str) -> Run:
    return CURVES[name].run()


def parallelisms(run: Run) -> list[int]:
    return [change.after for change in run.changes]


@pytest.mark.parametrize("name", sorted(CURVES.keys() - {"no-room"}))
def test_no_curve_makes_it_flap(name: str) -> None:
    curve, run = CURVES[name], run_of(name)
    assert run.reversals(within=curve.policy.scale_down_delay_seconds) == 0
    pairs = zip(run.changes, run.changes[1:], strict=False)
    settled = curve.policy.stabilization_seconds
    assert all(second.at - first.at >= settled for first, second in pairs)


@pytest.mark.parametrize("name", sorted(CURVES))
def test_every_decision_is_within_the_bounds_and_explained(name: str) -> None:
    policy = CURVES[name].policy
    for change in run_of(name).changes:
        assert policy.min_parallelism <= change.after <= policy.max_parallelism
        assert change.after != change.before
        assert change.verdict.message


def test_a_daily_wave_is_followed_with_few_steps_and_little_lag() -> None:
    run = run_of("daily-wave")
    assert len(run.changes) <= 18, "two days"
    assert run.most_lag_seconds < 30
    assert {1, 2, 12} <= {point.parallelism for point in run.points}


def test_four_times_the_load_is_followed_in_one_step() -> None:
    run = run_of("step")
    assert parallelisms(run) == [6]
    (change,) = run.changes
    assert change.at - 600 <= 12, "stabilizationSeconds is 10"
    assert run.most_lag_seconds < 20
    assert run.points[-1].lag_seconds < 3


def test_four_times_the_load_is_followed_by_a_restart_in_one_step() -> None:
    run = run_of("step-restart")
    assert parallelisms(run) == [6]
    assert run.points[-1].lag_seconds < 3


def test_a_spike_is_worked_off_without_a_change() -> None:
    run = run_of("spike")
    assert run.changes == []
    assert run.points[-1].lag_seconds < 3


def test_a_slow_growth_is_followed_before_it_becomes_lag() -> None:
    run = run_of("slow-leak")
    assert parallelisms(run) == sorted(parallelisms(run))
    assert run.points[-1].parallelism == 12
    assert run.most_lag_seconds < 5


def test_one_hot_partition_gets_no_subtasks_and_is_named() -> None:
    run = run_of("hot-partition")
    assert run.changes == []
    assert run.verdicts[-1].reason is ScalingReason.HOT_PARTITION
    assert "partition 0 of topic orders" in run.verdicts[-1].message


def test_an_idle_job_shrinks_once() -> None:
    assert parallelisms(run_of("idle")) == [1]


def test_a_broken_sink_is_not_answered_with_subtasks_and_its_backlog_is() -> None:
    run = run_of("broken-sink")
    assert all(change.at >= 1500 for change in run.changes), "the sink takes records again"
    broken = {verdict.reason for verdict, point in zip(run.verdicts, run.points, strict=True) if 950 < point.at < 1490}
    assert broken == {ScalingReason.NOT_READING}
    back = next(point.at for point in run.points if point.at > 1500 and point.lag_seconds < 3)
    assert back - 1500 < 300
    assert run.points[-1].parallelism == 3


def test_a_sink_that_is_too_slow_is_found_out_after_a_growth() -> None:
    run = run_of("slow-sink")
    assert len(run.changes) == 1
    assert run.verdicts[-1].reason is ScalingReason.INEFFECTIVE


def test_without_room_the_job_gets_what_fits() -> None:
    run = run_of("no-room")
    assert run.points[-1].parallelism == 3
    assert run.verdicts[-1].reason is ScalingReason.NO_ROOM
    assert len(run.changes) <= 4, "tried again after half an hour"


def test_the_picture_has_every_curve() -> None:
    text = drawn({CURVES[name].title: run_of(name) for name in CURVES})
    assert text.count("<polyline") == 4 * len(CURVES)
    assert all(curve.title in text for curve in CURVES.values())
