"""The load of an attempt: rates over a window, the busy share, and the heaviest partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import MAX_PARTITION_LOADS, Load, PartitionLoad
from sparkapp.spark.reporting.load_meter import LoadMeter, Look

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@dataclass
class Attempt:
    """An attempt whose subtasks read what they are told to; seconds pass by :meth:`after`."""

    subtasks: int = 2
    window: float = 3.0
    now: float = 100.0
    busy_millis: int = 0
    ends: dict[TopicPartition, int] = field(default_factory=lambda: {A0: 1000, A1: 1000})
    offsets: dict[TopicPartition, int] = field(default_factory=lambda: {A0: 1000, A1: 1000})

    def __post_init__(self) -> None:
        self.meter = LoadMeter(
            lambda: self.busy_millis, window_seconds=self.window, parallelism=self.subtasks, clock=lambda: self.now
        )

    def after(
        self, seconds: float, *, arrived: dict[TopicPartition, int], read: dict[TopicPartition, int], busy: float = 0
    ) -> Load | None:
        """What the meter says at the end of that time."""
        self.now += seconds
        self.busy_millis += round(busy * seconds * 1000)
        self.ends = {each: end + arrived.get(each, 0) for each, end in self.ends.items()}
        self.offsets = {each: at + read.get(each, 0) for each, at in self.offsets.items()}
        return self.meter.measure(Look(0.0, self.ends), self.offsets, parallelism=self.subtasks)


def test_rates_are_for_the_window_and_the_busy_share_is_the_mean_of_the_subtasks():
    attempt = Attempt()
    assert attempt.after(0, arrived={}, read={}) is None
    load = attempt.after(2, arrived={A0: 400, A1: 200}, read={A0: 300, A1: 200}, busy=1.0)
    assert load == Load(
        window_millis=2000, busy_percent=50, lag=100, arrived_per_second=300, read_per_second=250, partitions=2,
        heaviest=(PartitionLoad("a", 0, 100, 200, 150), PartitionLoad("a", 1, 0, 100, 100)),
    )  # fmt: skip


def test_what_was_before_the_window_is_forgotten():
    attempt = Attempt()
    attempt.after(0, arrived={}, read={})
    for _ in range(10):
        attempt.after(1, arrived={A0: 100}, read={A0: 100}, busy=1.0)
    for _ in range(3):
        load = attempt.after(1, arrived={A0: 400}, read={A0: 200}, busy=2.0)
    assert load is not None
    assert (load.window_millis, load.arrived_per_second, load.read_per_second) == (3000, 400, 200)
    assert load.busy_percent == 100


def test_a_checkpoint_that_takes_longer_than_the_window_makes_it_longer():
    attempt = Attempt()
    attempt.after(0, arrived={}, read={})
    load = attempt.after(20, arrived={A0: 2000}, read={A0: 2000})
    assert load is not None
    assert (load.window_millis, load.read_per_second) == (20_000, 100)


def test_two_checkpoints_within_a_moment_are_one_sample():
    attempt = Attempt()
    attempt.after(0, arrived={}, read={})
    assert attempt.after(0.1, arrived={A0: 1}, read={}) is None
    load = attempt.after(0.9, arrived={A0: 99}, read={})
    assert load is not None
    assert load.arrived_per_second == 100


def test_without_a_new_look_at_the_ends_the_load_is_unknown():
    attempt = Attempt()
    attempt.after(0, arrived={}, read={})
    attempt.now += 5
    assert attempt.meter.measure(Look(5.0, attempt.ends), attempt.offsets, parallelism=2) is None
    assert attempt.meter.measure(None, attempt.offsets, parallelism=2) is None


def test_a_new_partition_and_one_that_is_gone_have_no_rate_yet():
    attempt = Attempt()
    attempt.after(0, arrived={}, read={})
    new = TopicPartition("a", 2)
    attempt.ends = {A0: 1000, new: 5000}
    attempt.offsets = {A0: 1000, new: 4000}
    load = attempt.after(2, arrived={}, read={})
    assert load is not None
    assert load.heaviest == (PartitionLoad("a", 2, 1000, 0, 0), PartitionLoad("a", 0, 0, 0, 0))


def test_of_many_partitions_the_heaviest_are_named_and_all_are_in_the_sums():
    many = [TopicPartition("a", number) for number in range(500)]
    attempt = Attempt(ends=dict.fromkeys(many, 0), offsets=dict.fromkeys(many, 0))
    attempt.after(0, arrived={}, read={})
    load = attempt.after(1, arrived={each: 1 + (each.partition == 321) for each in many}, read={})
    assert load is not None
    assert (load.partitions, load.lag, load.arrived_per_second) == (500, 501, 501)
    assert len(load.heaviest) == MAX_PARTITION_LOADS
    assert load.heaviest[0].partition == 321


@pytest.mark.parametrize("parallelism", [0, 2])
def test_before_the_first_checkpoint_the_attempt_has_the_parallelism_of_its_start(parallelism):
    attempt = Attempt(subtasks=2)
    attempt.after(0, arrived={}, read={})
    attempt.now, attempt.busy_millis = attempt.now + 1, 2000
    load = attempt.meter.measure(Look(0.0, attempt.ends), attempt.offsets, parallelism=parallelism)
    assert load is not None
    assert load.busy_percent == 100
