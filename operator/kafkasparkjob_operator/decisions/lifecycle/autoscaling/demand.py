"""What a load asks of the busiest subtask, for each parallelism. Pure arithmetic over the driver's numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkapp.model.partition import split_owner
from sparkapp.model.report import Load, PartitionLoad

LEAST_BUSY = 0.02
"""Share of busy time below which it says nothing about the most that a subtask can do."""
_ALLOWED_INTERVALS = 2.0
"""Checkpoint intervals of arrivals that wait without a backlog: those of the checkpoint that runs, and of the next."""
_ALLOWED_SECONDS = 1.0


def useful(partitions: int, *, low: int, high: int, divisible: bool = False) -> Iterator[int]:
    """The parallelisms to choose from: the bounds' lowest, and each with fewer partitions for the busiest subtask.

    :param divisible: subtasks share the records of a partition, so that each further subtask has an effect.
    """
    yield low
    most = -(-partitions // low)
    for parallelism in range(low + 1, (high if divisible else min(high, partitions)) + 1):
        fewer = -(-partitions // parallelism)
        if divisible or fewer < most:
            most = fewer
            yield parallelism


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The load of an attempt.

    :param runs: its parallelism.
    :param interval: seconds between its checkpoints.
    :param divisible: see :func:`useful`.
    """

    load: Load
    runs: int
    interval: float
    divisible: bool = False

    def backlog_of(self, each: PartitionLoad) -> float:
        """Records of a partition that wait for longer than a record has to."""
        rate = max(each.arrived_per_second, each.read_per_second)
        return max(0.0, each.lag - rate * self._allowed_seconds)

    @property
    def backlog(self) -> float:
        """The same of all partitions."""
        rest, others = self._rest
        return sum(map(self.backlog_of, self.load.heaviest)) + others * self.backlog_of(rest)

    @property
    def reads_nothing(self) -> bool:
        """Whether records wait, and none is read: a standstill that more subtasks do not end."""
        return self.load.read_per_second == 0 and self.backlog > 0

    @property
    def capacity(self) -> float:
        """Records a second that a subtask reads when it never waits; 0 where that is unknown.

        A subtask that was behind for the whole window has shown it. Otherwise it follows from the busy share.
        """
        shown = max(self._rates_behind(), default=0.0)
        if self.reads_nothing or not self.load.read_per_second:
            return 0.0
        by_share = self.load.read_per_second / (self.runs * max(self.load.busy_percent / 100, LEAST_BUSY))
        return min(by_share, shown) if shown else by_share

    def busiest(self, parallelism: int, of_partition: Callable[[PartitionLoad], float]) -> float:
        """The largest sum of a number of partitions that a subtask has; those without a row are spread evenly."""
        rest, others = self._rest
        of_rest = of_partition(rest) if others else 0.0
        if self.divisible:
            return (sum(map(of_partition, self.load.heaviest)) + others * of_rest) / parallelism
        share = -(-self.load.partitions // parallelism)
        sums: defaultdict[int, float] = defaultdict(float)
        counts: Counter[int] = Counter()
        for each in self.load.heaviest:
            owner = split_owner(each.topic, each.partition, parallelism)
            sums[owner] += of_partition(each)
            counts[owner] += 1
        unnamed = min(share, others) * of_rest
        named = (sums[owner] + min(max(0, share - counts[owner]), others) * of_rest for owner in sums)
        return max(unnamed, max(named, default=0.0))

    @property
    def heaviest(self) -> PartitionLoad | None:
        """The partition with the most to do; None without partitions."""
        return self.load.heaviest[0] if self.load.heaviest else None

    @property
    def _allowed_seconds(self) -> float:
        return _ALLOWED_INTERVALS * self.interval + _ALLOWED_SECONDS

    @property
    def _rest(self) -> tuple[PartitionLoad, int]:
        """The mean of the partitions without a row, and their number."""
        load, named = self.load, self.load.heaviest
        others = max(0, load.partitions - len(named))
        if not others:
            return PartitionLoad("", 0, 0, 0, 0), 0
        sums = (
            load.lag - sum(each.lag for each in named),
            load.arrived_per_second - sum(each.arrived_per_second for each in named),
            load.read_per_second - sum(each.read_per_second for each in named),
        )
        return PartitionLoad("", 0, *(max(0, total) // others for total in sums)), others

    def _rates_behind(self) -> Iterator[float]:
        """Records a second of each subtask that had a backlog at the begin of the window, and has it still."""
        seconds = self.load.window_millis / 1000
        rest, others = self._rest
        share = -(-self.load.partitions // self.runs)
        rates: Counter[int] = Counter()
        counts: Counter[int] = Counter()
        behind: set[int] = set()
        for each in self.load.heaviest:
            owner = split_owner(each.topic, each.partition, self.runs)
            rates[owner] += each.read_per_second
            counts[owner] += 1
            grown = (each.arrived_per_second - each.read_per_second) * seconds
            backlog = self.backlog_of(each)
            if backlog > 0 and backlog - grown > 0:
                behind.add(owner)
        for owner in behind:
            yield rates[owner] + min(max(0, share - counts[owner]), others) * rest.read_per_second
