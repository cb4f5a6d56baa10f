"""The parallelism that a job needs, and when it changes: (policy, situation, history, now) -> verdict. Pure.

The arithmetic is that of the autoscaler of Flink's Kubernetes operator, which is DS2's. The target rate works off the
backlog and leaves a part of the time free. Here it is that of the busiest subtask, whose partitions are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from kafkasparkjob_operator.decisions.lifecycle.autoscaling.demand import Demand, useful
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.history import History
from kafkasparkjob_operator.decisions.lifecycle.autoscaling.room import UNLIMITED, Room
from kafkasparkjob_operator.status.phases import WITHDRAW_SECONDS
from kafkasparkjob_operator.status.scaling_reason import ScalingReason
from kafkasparkjob_operator.workload import Autoscaler
from sparkapp.model.report import PartitionLoad

ROOM_SECONDS = 300.0
"""For the executors of a growth in place to start. The job runs with its previous parallelism meanwhile."""
ROOM_AFTER_RESTART_SECONDS = 120.0
"""The same after a restart: the job may stand still."""
REFUSED_SECONDS = 30.0
"""The same where Kubernetes refuses the executors: no new node helps against a quota."""
NO_ROOM_SECONDS = 1800.0
"""After that a parallelism that found no room is tried again."""
RESCALE_SECONDS = 10
"""From a decision to its effect, before the first was measured."""
_MAX_RESCALE_SECONDS = 3600
EFFECTIVE_SHARE = 0.1
"""The part of the expected gain that a growth must have brought. Flink's."""
WORTH_SHARE = 0.1
"""The part by which a growth that is not enough must lower the load of the busiest subtask."""
_AT_LIMIT_SHARE = 0.9
_HOT = 2.0
"""A partition with more than that, by the mean of all, is hot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the operator knows of a job that runs.

    :param demand: None where the driver has not told its load.
    :param runs: the parallelism that runs. :param wanted: that is asked for.
    :param of_spec: ``spec.parallelism``.
    :param in_place: whether the running attempt changes its parallelism in place.
    :param missing: why executors are missing; empty where none is. :param refused: Kubernetes refuses them.
    :param fits: the parallelism that the running executors have room for.
    :param running_since: when the attempt began to run.
    :param withheld: ``wanted`` is refused. :param withdrawn: its request is taken back: it has found no room.
    :param places: for subtasks, where the number of executors is fixed; 0 for any number.
    :param room: that quotas leave; None where it was not asked.
    :param max_rate: records a second of a partition that the spec allows; 0 for any number.
    """

    demand: Demand | None
    runs: int
    wanted: int
    of_spec: int
    in_place: bool
    missing: str = ""
    refused: bool = False
    fits: int = 0
    withheld: bool = False
    withdrawn: bool = False
    running_since: datetime | None = None
    max_rate: int = 0
    places: int = 0
    room: Room | None = UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What follows from a situation.

    :param history: to be kept. Its parallelism is the decision.
    :param recommended: the parallelism that the load asks for; 0 where that is unknown.
    :param changes: the decision is new.
    :param advised: it would be, without ``dryRun``.
    :param asks_room: it would be if quotas leave room, which was not asked.
    """

    history: History
    reason: ScalingReason
    message: str
    recommended: int = 0
    changes: bool = False
    advised: bool = False
    asks_room: bool = False


def decide(policy: Autoscaler, situation: Situation, history: History, now: datetime) -> Verdict:
    """Called by the state machine for each plan of a job that runs with ``spec.autoscaler``."""
    if history.of_spec != situation.of_spec:
        history = History(of_spec=situation.of_spec, rescale_seconds=history.rescale_seconds)
    if situation.withheld:
        message = f"parallelism {situation.wanted} is refused: condition Stalled has the cause"
        return Verdict(history=history.without_wishes(), reason=ScalingReason.REFUSED, message=message)
    if situation.runs != situation.wanted or (history.under_way and situation.missing):
        return _under_way(situation, history.without_wishes(), now)
    if history.under_way and history.since is not None:
        seconds = min(_MAX_RESCALE_SECONDS, max(1, round(_age(history.since, now))))
        history = replace(history, effective_since=now, rescale_seconds=seconds)
    demand = situation.demand
    if demand is None or not demand.load.partitions:
        message = "the driver has not reported its load"
        return Verdict(history=history.without_wishes(), reason=ScalingReason.LOAD_UNKNOWN, message=message)
    settled = max((at for at in (history.effective_since, situation.running_since) if at is not None), default=now)
    left = policy.stabilization_seconds - _age(settled, now)
    if left > 0:
        message = (
            f"the job runs with parallelism {situation.runs} since {settled:%H:%M:%S}, and the load is not judged yet"
        )
        return Verdict(history=history.without_wishes(), reason=ScalingReason.STABILIZING, message=message)
    return _Judge(policy, situation, demand, history, now).verdict()


def _under_way(situation: Situation, history: History, now: datetime) -> Verdict:
    """A decision waits for its effect, or for room until it is taken back."""
    limit = ROOM_SECONDS if situation.in_place else ROOM_AFTER_RESTART_SECONDS
    limit = REFUSED_SECONDS if situation.refused else limit
    tried, before, since = history.parallelism, history.before, history.since if history.under_way else None
    late = situation.missing and since is not None and _age(since, now) >= limit
    if situation.withdrawn:  # also what a person has asked for
        late, limit, tried, before = True, WITHDRAW_SECONDS, situation.wanted, situation.runs
    if late and 0 < before < tried:
        fits = max(before, min(situation.fits, tried - 1))
        message = (
            f"parallelism {tried} has found no room within {limit:.0f} s, and the job gets parallelism {fits}"
            f"{situation.missing}"
        )
        taken_back = History(
            parallelism=fits, of_spec=situation.of_spec, since=now, before=tried,
            rescale_seconds=history.rescale_seconds, no_room=fits + 1, no_room_since=now,
        )  # fmt: skip
        return Verdict(history=taken_back, reason=ScalingReason.NO_ROOM, message=message, changes=True)
    message = f"the job changes from parallelism {situation.runs} to {situation.wanted}{situation.missing}"
    return Verdict(history=history, reason=ScalingReason.RESCALING, message=message)


class _Judge:
    def __init__(
        self, policy: Autoscaler, situation: Situation, demand: Demand, history: History, now: datetime
    ) -> None:  # fmt: skip
        self.policy, self.situation, self.demand, self.history, self.now = policy, situation, demand, history, now
        self.capacity = demand.capacity
        # Above this share of its time a subtask is too busy. The room between it and the target keeps the job calm.
        self.limit = (100 + policy.target_utilization) / 200
        self.restart = history.rescale_seconds or RESCALE_SECONDS

    def verdict(self) -> Verdict:
        runs = self.situation.runs
        if not self.capacity:
            if self.demand.reads_nothing:
                message = f"{self.demand.load.lag} records wait, and none is read"
                return self._stays(ScalingReason.NOT_READING, message, more=True)
            if self.demand.load.arrived_per_second:
                return self._stays(ScalingReason.BALANCED, "nothing has been read yet")
        choices = self._choices()
        needed = self._needed(choices)
        if not self._suffices(runs, urgent=True):
            return self._more(needed, choices)
        if needed < runs:
            return self._fewer(needed)
        return self._stays(
            ScalingReason.BALANCED, f"parallelism {runs} fits: {self._numbers(runs)}", recommended=needed
        )

    def _choices(self) -> list[int]:
        policy, demand = self.policy, self.demand
        high = min(policy.max_parallelism, self.situation.places or policy.max_parallelism)
        return list(
            useful(demand.load.partitions, low=policy.min_parallelism, high=high, divisible=demand.divisible)
        )  # fmt: skip

    def _work(self, *, urgent: bool) -> float:
        """What a record of arrivals counts, so that the sum is to be at most the capacity.

        :param urgent: with the most that a subtask may work, in place of the target and the time of a rescale.
        """
        policy = self.policy
        if urgent:
            return 1 / self.limit
        return 100 / policy.target_utilization + self.restart / policy.catch_up_seconds

    def _load_of(self, parallelism: int, *, urgent: bool = False) -> float:
        """Records a second that the busiest subtask has to be able to read."""
        of_arrivals, catch_up = self._work(urgent=urgent), self.policy.catch_up_seconds

        def target_rate(each: PartitionLoad) -> float:
            return each.arrived_per_second * of_arrivals + self.demand.backlog_of(each) / catch_up

        return self.demand.busiest(parallelism, target_rate)

    def _suffices(self, parallelism: int, *, urgent: bool = False) -> bool:
        return self._load_of(parallelism, urgent=urgent) <= self.capacity

    def _needed(self, choices: list[int]) -> int:
        """The smallest parallelism that suffices; else the smallest of those whose busiest subtask has least to do."""
        enough = next((each for each in choices if self._suffices(each)), None)
        return enough if enough is not None else min(choices, key=lambda each: (self._load_of(each), each))

    def _more(self, needed: int, choices: list[int]) -> Verdict:
        """More subtasks are wanted: why they are not started, or that they are."""
        demand, limit, runs = self.demand, self.situation.max_rate, self.situation.runs
        heaviest = demand.heaviest
        if limit and heaviest is not None and heaviest.read_per_second >= _AT_LIMIT_SHARE * limit:
            message = (
                f"the job reads {heaviest.read_per_second} records/s of partition {heaviest.partition} of topic"
                f" {heaviest.topic}, and the limit is {limit}"
            )
            return self._stays(ScalingReason.RATE_LIMITED, message, more=True)
        gain = 1 - self._load_of(needed) / self._load_of(runs)
        if needed <= runs or (not self._suffices(needed) and gain < WORTH_SHARE):
            return self._without_choice(choices)
        room = self._room(needed, choices)
        if room is None:
            message = f"parallelism {needed} is needed: {self._numbers(needed)}{self.situation.missing}"
            return self._stays(ScalingReason.NO_ROOM, message, more=True, recommended=needed)
        if self._was_ineffective():
            message = (
                f"parallelism {runs} reads {demand.load.read_per_second} records/s, hardly more than parallelism"
                f" {self.history.before} has read"
            )
            return self._stays(ScalingReason.INEFFECTIVE, message, more=True, recommended=needed)
        return self._grows(room, choices)

    def _grows(self, parallelism: int, choices: list[int]) -> Verdict:
        since = self.history.above_since or self.now
        message = f"parallelism {parallelism} is needed since {since:%H:%M:%S}: {self._numbers(parallelism)}"
        if _age(since, self.now) < self.policy.stabilization_seconds:
            return self._stays(ScalingReason.STABILIZING, message, more=True, recommended=parallelism)
        if self.policy.excludes(self.now):
            return self._stays(ScalingReason.EXCLUDED_PERIOD, message, more=True, recommended=parallelism)
        room, runs = self.situation.room, self.situation.runs
        if room is None:
            waits = self._stays(ScalingReason.STABILIZING, message, more=True, recommended=parallelism)
            return replace(waits, asks_room=True)
        tried = max((each for each in choices if runs < each <= min(parallelism, room.parallelism)), default=None)
        message += room.cause
        if tried is None:
            return self._stays(ScalingReason.NO_ROOM, message, more=True, recommended=parallelism)
        return self._changes(tried, ScalingReason.SCALED_UP, message)

    def _without_choice(self, choices: list[int]) -> Verdict:
        heaviest, runs, load = self.demand.heaviest, self.situation.runs, self.demand.load
        if heaviest is not None and not self.demand.divisible:
            catch_up = self.policy.catch_up_seconds
            own = heaviest.arrived_per_second / self.limit + self.demand.backlog_of(heaviest) / catch_up
            mean = (load.arrived_per_second / self.limit + self.demand.backlog / catch_up) / load.partitions
            if own > max(self.capacity, _HOT * mean):
                message = (
                    f"partition {heaviest.partition} of topic {heaviest.topic} gets {heaviest.arrived_per_second}"
                    f" records/s and {heaviest.lag} wait, and a subtask reads {self.capacity:.0f}; more subtasks do not"
                    " help"
                )
                return self._stays(ScalingReason.HOT_PARTITION, message, more=True)
        message = f"no parallelism up to {choices[-1]} is better than {runs}: {self._numbers(runs)}"
        return self._stays(ScalingReason.AT_MAXIMUM, message, more=True)

    def _room(self, needed: int, choices: list[int]) -> int | None:
        """The parallelism that may be tried now; None where there is no room for more."""
        history, runs = self.history, self.situation.runs
        if self.situation.missing:
            return None
        refused = history.no_room_since is not None and _age(history.no_room_since, self.now) < NO_ROOM_SECONDS
        if not refused or needed < history.no_room:
            return needed
        return max((each for each in choices if runs < each < history.no_room), default=None)

    def _was_ineffective(self) -> bool:
        """Whether the last growth has brought next to nothing, although there is a backlog."""
        history, runs = self.history, self.situation.runs
        grown = runs - history.before
        if history.parallelism != runs or history.before <= 0 or grown <= 0 or not self.demand.backlog:
            return False
        expected = history.capacity * grown
        return self.demand.load.read_per_second - history.capacity * history.before < EFFECTIVE_SHARE * expected

    def _fewer(self, needed: int) -> Verdict:
        """Fewer subtasks are enough: since when, and whether they are taken away."""
        history, policy = self.history, self.policy
        since, most = history.below_since or self.now, max(history.below_most, needed)
        most = min(most, self.situation.runs)
        message = f"parallelism {most} is enough since {since:%H:%M:%S}: {self._numbers(most)}"
        kept = replace(history.without_wishes(), below_since=since, below_most=most)
        waits = _age(since, self.now) < policy.scale_down_delay_seconds
        if waits or most >= self.situation.runs or policy.excludes(self.now):
            excluded = not waits and policy.excludes(self.now)
            reason = ScalingReason.EXCLUDED_PERIOD if excluded else ScalingReason.WAITS_TO_SHRINK
            return Verdict(history=kept, reason=reason, message=message, recommended=most)
        return self._changes(most, ScalingReason.SCALED_DOWN, message, wishes=kept)

    def _changes(
        self, parallelism: int, reason: ScalingReason, message: str, *, wishes: History | None = None
    ) -> Verdict:  # fmt: skip
        history, situation = self.history, self.situation
        if self.policy.dry_run:
            since = history.above_since or self.now
            kept = wishes or replace(history.without_wishes(), above_since=since)
            return Verdict(history=kept, reason=reason, message=message, recommended=parallelism, advised=True)
        decided = replace(
            history.without_wishes(), parallelism=parallelism, of_spec=situation.of_spec, since=self.now,
            before=situation.runs, effective_since=None, capacity=round(self.capacity),
        )  # fmt: skip
        return Verdict(history=decided, reason=reason, message=message, recommended=parallelism, changes=True)

    def _stays(
        self, reason: ScalingReason, message: str, *, more: bool = False, recommended: int = 0
    ) -> Verdict:  # fmt: skip
        """
        :param more: more subtasks are wanted, and what wants them may end.
        """
        history = self.history.without_wishes()
        if more:
            history = replace(history, above_since=self.history.above_since or self.now)
        return Verdict(
            history=history, reason=reason, message=message, recommended=recommended or self.situation.runs
        )  # fmt: skip

    def _numbers(self, parallelism: int) -> str:
        load = self.demand.load
        share = self.demand.busiest(parallelism, lambda each: float(each.arrived_per_second)) / (self.capacity or 1.0)
        return (
            f"{load.arrived_per_second} records/s arrive, {load.lag} wait, a subtask reads {self.capacity:.0f}"
            f" records/s, and the busiest works for {100 * share:.0f} % of its time"
        )


def _age(since: datetime, now: datetime) -> float:
    """Seconds; a clock that was set back must not make a wait longer."""
    return abs((now - since).total_seconds())
