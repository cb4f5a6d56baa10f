"""The autoscaler for any load: within its bounds, silent where it must be, and at rest under a load that stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.autoscaler.simulation import Job, World
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.decision import Situation, decide
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.demand import Demand, useful
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.history import History, body_of, history_of
from kafkasparkjob_operator.workload import Autoscaler
from kafkasparkjob_operator.workload.autoscaler_fields import ExcludedPeriod
from sparkapp.model.report import Load, PartitionLoad

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
numbers = st.one_of(st.integers(0, 10_000), st.integers(0, (1 << 63) - 1))
rows = st.builds(PartitionLoad, st.sampled_from(["a", "b", "ä" * 249]), numbers, numbers, numbers, numbers)
loads = st.builds(
    Load,
    window_millis=st.integers(1, 1 << 40), busy_percent=st.integers(0, 100), lag=numbers, arrived_per_second=numbers,
    read_per_second=numbers, partitions=st.one_of(st.integers(0, 64), numbers),
    heaviest=st.lists(rows, max_size=16).map(tuple),
)  # fmt: skip
policies = st.builds(
    lambda bounds, **fields: Autoscaler(min_parallelism=min(bounds), max_parallelism=max(bounds), **fields),
    st.tuples(st.integers(1, 64), st.integers(1, 64)),
    target_utilization=st.integers(10, 95), stabilization_seconds=st.sampled_from([0, 30]),
    scale_down_delay_seconds=st.sampled_from([0, 600]), catch_up_seconds=st.integers(1, 600), dry_run=st.booleans(),
    excluded_periods=st.sampled_from([(), (ExcludedPeriod(begins="00:00", ends="00:00"),)]),
)  # fmt: skip
times = st.one_of(st.none(), st.integers(-3600, 3600).map(lambda seconds: NOW - timedelta(seconds=seconds)))
counts = st.integers(0, 64)
histories = st.builds(
    History,
    parallelism=counts, since=times, of_spec=st.sampled_from([0, 2]), before=counts, effective_since=times,
    rescale_seconds=counts, capacity=st.integers(0, 10_000), above_since=times, below_since=times, below_most=counts,
    no_room=counts, no_room_since=times,
)  # fmt: skip


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    runs = draw(st.integers(1, 64))
    found = draw(st.one_of(st.none(), loads))
    return Situation(
        demand=None if found is None else Demand(load=found, runs=runs, interval=1.0, divisible=draw(st.booleans())),
        runs=runs, wanted=draw(st.sampled_from([runs, 8])), of_spec=2, in_place=draw(st.booleans()),
        missing=draw(st.sampled_from(["", "; refused"])), refused=draw(st.booleans()), fits=draw(counts),
        running_since=draw(times), max_rate=draw(st.sampled_from([0, 100])),
    )  # fmt: skip


@given(policies, situations(), histories)
@settings(max_examples=400)
def test_any_situation_has_an_explained_verdict_within_the_bounds(policy, situation, history):
    verdict = decide(policy, situation, history, NOW)
    assert verdict.message
    if not verdict.changes:
        assert verdict.history.parallelism in {0, history.parallelism}
        return
    decided, taken_back = verdict.history.parallelism, verdict.history.no_room_since == NOW
    assert verdict.history.since == NOW
    if taken_back:
        assert decided < history.parallelism
        return
    assert policy.min_parallelism <= decided <= policy.max_parallelism
    assert decided != situation.runs
    assert not policy.dry_run
    assert not policy.excludes(NOW)


@given(policies, situations(), histories)
def test_a_verdict_outlives_the_operator(policy, situation, history):
    kept = decide(policy, situation, history, NOW).history
    assert history_of(body_of(kept)) == kept


@given(st.integers(0, 300), st.integers(1, 64), st.integers(1, 64))
def test_each_useful_parallelism_relieves_the_busiest_subtask(partitions, low, high):
    found = list(useful(partitions, low=min(low, high), high=max(low, high)))
    shares = [-(-partitions // each) for each in found]
    assert found[0] == min(low, high)
    assert all(more > fewer for more, fewer in pairwise(shares))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    rate, skew = draw(st.integers(0, 12_000)), draw(st.floats(1, 20))
    return World(
        rate=lambda _: float(rate), weights=(skew, *[1.0] * draw(st.integers(0, 15))),
        capacity=draw(st.floats(300, 3000)), seconds=1500, tick=4.0, in_place=draw(st.booleans()),
    )  # fmt: skip


@given(worlds(), st.integers(1, 12), st.integers(40, 90))
@settings(max_examples=12, deadline=None)
def test_under_a_load_that_stays_a_job_comes_to_rest(world, start, target):
    policy = Autoscaler(
        max_parallelism=12, stabilization_seconds=10, scale_down_delay_seconds=120, catch_up_seconds=60,
        target_utilization=target,
    )  # fmt: skip
    run = Job(world, policy, spec_parallelism=start).run()
    directions = [change.after > change.before for change in run.changes]
    turns = sum(first != second for first, second in pairwise(directions))
    assert turns <= 1, [(change.at, change.before, change.after) for change in run.changes]
    again = replace(policy, dry_run=True)
    assert Job(world, again, spec_parallelism=start).run().changes == []
