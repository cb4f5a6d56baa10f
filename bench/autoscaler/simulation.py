"""A job under a curve of load: partitions, subtasks and rescales are simulated. Meter and decision are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kafkasparkjob_operator.decisions.lifecycle.autoscaling.decision import Situation, Verdict, decide
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.demand import Demand
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.history import History
from kafkasparkjob_operator.workload import Autoscaler
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.model.report import Load
from sparkapp.spark.reporting.load_meter import LOAD_SECONDS, SLOW_LOAD_SECONDS, LoadMeter, Look

BEGIN = datetime(2026, 11, 29, tzinfo=UTC)
TOPIC = "orders"
ALWAYS = float("inf")


@dataclass(frozen=True, kw_only=True)
class World:
    """What the job meets. Times are seconds since the begin.

    :param rate: records a second that arrive, over all partitions.
    :param weights: of each partition in that rate.
    :param capacity: records a second that a subtask reads without waiting.
    :param sink: records a second that the sink takes in all.
    :param seconds: length of the curve. :param tick: of the simulation, and between two reports.
    :param room: the largest parallelism that finds executors.
    :param in_place: the parallelism changes in place; else the job restarts.
    :param noise: factor of the rate at a time.
    """

    rate: Callable[[float], float]
    weights: Sequence[float] = (1.0,) * 12
    capacity: float = 1000.0
    sink: Callable[[float], float] = lambda _: ALWAYS
    seconds: float = 3600.0
    tick: float = 2.0
    interval: float = 1.0
    room: int = 1024
    in_place: bool = True
    start_seconds: float = 6.0
    restart_seconds: float = 20.0
    noise: Callable[[float], float] = lambda _: 1.0


@dataclass(frozen=True, slots=True)
class Point:
    """The job at a moment; ``lag_seconds`` is the lag over what arrives in a second."""

    at: float
    arrives: float
    reads: float
    lag: float
    lag_seconds: float
    parallelism: int


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that was carried out."""

    at: float
    before: int
    after: int
    verdict: Verdict


@dataclass(kw_only=True)
class Run:
    """The result of a curve."""

    points: list[Point] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def most_lag_seconds(self) -> float:
        return max(point.lag_seconds for point in self.points)

    def reversals(self, within: float) -> int:
        """Changes that take back the change before them within that time: flapping."""
        pairs = zip(self.changes, self.changes[1:], strict=False)
        return sum(
            (second.after - second.before) * (first.after - first.before) < 0 and second.at - first.at < within
            for first, second in pairs
        )


class Job:
    """A job in the world.

    :param spec_parallelism: of the resource.
    """

    def __init__(self, world: World, policy: Autoscaler, *, spec_parallelism: int = 1) -> None:
        self.world, self.policy = world, policy
        self.now = 0.0
        self.spec_parallelism = spec_parallelism
        self.runs = self.wanted = policy.bounded(spec_parallelism)
        self.history = History()
        count = len(world.weights)
        self.arrived, self.read = [0.0] * count, [0.0] * count
        self.busy_millis = 0.0
        self.load: Load | None = None
        self._running_since = BEGIN
        self._effect_at: float | None = None
        self._stands_until = 0.0
        self._partitions = [TopicPartition(TOPIC, number) for number in range(count)]
        self._total = sum(world.weights)
        self._owners: dict[int, list[int]] = {}
        self._new_meter()

    def _new_meter(self) -> None:
        self._meter = LoadMeter(
            lambda: round(self.busy_millis), parallelism=self.runs, clock=lambda: self.now,
            window_seconds=LOAD_SECONDS if self.world.in_place else SLOW_LOAD_SECONDS,
        )  # fmt: skip

    def run(self) -> Run:
        """The whole curve."""
        found = Run()
        while self.now < self.world.seconds:
            self.now += self.world.tick
            reads = self._work()
            found.points.append(self._point(reads))
            verdict = self._judge()
            found.verdicts.append(verdict)
            if verdict.changes:
                found.changes.append(Change(self.now, self.wanted, verdict.history.parallelism, verdict))
                self._ask(verdict.history.parallelism)
        return found

    def _point(self, reads: float) -> Point:
        lag = sum(self.arrived) - sum(self.read)
        arrives = self.world.rate(self.now) * self.world.noise(self.now)
        return Point(self.now, arrives, reads, lag, lag / max(arrives, 1.0), self.runs)

    def _work(self) -> float:
        """What arrives in a tick, and what subtasks and sink let through; returns records read a second."""
        world, tick = self.world, self.world.tick
        rate = world.rate(self.now) * world.noise(self.now)
        for number, weight in enumerate(world.weights):
            self.arrived[number] += rate * weight / self._total * tick
        self._take_effect()
        if self.now < self._stands_until:
            return 0.0
        owners = self._owners_of(self.runs)
        waiting = [0.0] * self.runs
        for number, owner in enumerate(owners):
            waiting[owner] += self.arrived[number] - self.read[number]
        able = [min(amount, world.capacity * tick) for amount in waiting]
        passes = min(1.0, world.sink(self.now) * tick / max(sum(able), 1e-9))
        for number, owner in enumerate(owners):
            if waiting[owner] > 0:
                share = (self.arrived[number] - self.read[number]) / waiting[owner]
                self.read[number] += able[owner] * passes * share
        # A subtask that the sink holds back does not wait for records.
        self.busy_millis += sum(
            1000 * tick * (1.0 if passes < 1 and amount > 0 else amount / (world.capacity * tick)) for amount in able
        )
        self._measure()
        return sum(able) * passes / tick

    def _measure(self) -> None:
        ends = {each: round(at) for each, at in zip(self._partitions, self.arrived, strict=True)}
        offsets = {each: round(at) for each, at in zip(self._partitions, self.read, strict=True)}
        self.load = self._meter.measure(Look(0.0, ends), offsets, parallelism=self.runs) or self.load

    def _owners_of(self, parallelism: int) -> list[int]:
        if parallelism not in self._owners:
            self._owners[parallelism] = [split_owner(*each, parallelism) for each in self._partitions]
        return self._owners[parallelism]

    def _take_effect(self) -> None:
        if self._effect_at is None or self.now < self._effect_at or self.wanted > self.world.room:
            return
        self._effect_at, self.runs = None, self.wanted
        if not self.world.in_place:
            self._running_since = self._time
            self.load = None
            self._new_meter()

    def _ask(self, parallelism: int) -> None:
        world = self.world
        grows = parallelism > self.runs
        self.wanted = parallelism
        if world.in_place:
            self._effect_at = self.now + (world.start_seconds if grows else 1.0)
        else:
            self._effect_at = self._stands_until = self.now + world.restart_seconds

    @property
    def _time(self) -> datetime:
        return BEGIN + timedelta(seconds=self.now)

    def _judge(self) -> Verdict:
        demand = None
        if self.load is not None:
            demand = Demand(load=self.load, runs=self.runs, interval=self.world.interval)
        missing = "; Kubernetes refuses executors: exceeded quota" if self.wanted > self.world.room else ""
        situation = Situation(
            demand=demand, runs=self.runs, wanted=self.wanted, of_spec=self.spec_parallelism,
            in_place=self.world.in_place, missing=missing, refused=bool(missing),
            fits=min(self.wanted, self.world.room), running_since=self._running_since,
        )  # fmt: skip
        verdict = decide(self.policy, situation, self.history, self._time)
        self.history = verdict.history
        return verdict
