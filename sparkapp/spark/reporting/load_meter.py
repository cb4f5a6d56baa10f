"""Measures what an attempt has to do: records that arrive and that are read, and the share of time that it works."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sparkapp.clients.deadline import Clock
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import MAX_PARTITION_LOADS, Load, PartitionLoad

LOAD_SECONDS = 3.0
"""The time that rates are for, at least, where a rescale in place follows the load within seconds."""
SLOW_LOAD_SECONDS = 30.0
"""The same where a rescale is a restart. Subtasks of the local pace tell their busy time every 5 s."""
_MIN_SECONDS = 0.5
"""Shortest time that a rate is for, and half of the time between two samples that are kept."""
_AHEAD_SECONDS = 60
"""What arrives in this time and what waits make a partition heavy."""


class Look(NamedTuple):
    """The partitions' ends, and for how many seconds they have been known."""

    age: float
    ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Sample:
    """
    :param at: when offsets and busy time were read. :param looked_at: when the brokers told the ends.
    """

    at: float
    looked_at: float
    offsets: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    busy_millis: int


class LoadMeter:
    """Used by :class:`~sparkapp.spark.reporting.progress.Progress`, under its lock.

    :param busy_millis: time in which subtasks have worked so far, summed over them.
    :param window_seconds: the time that rates are for, at least. A longer checkpoint makes it longer.
    :param parallelism: before the attempt's first checkpoint.
    :param clock: monotonic seconds.
    """

    def __init__(
        self, busy_millis: Callable[[], int], *, window_seconds: float, parallelism: int, clock: Clock
    ) -> None:  # fmt: skip
        self._busy_millis = busy_millis
        self._window = window_seconds
        self._parallelism = parallelism
        self._clock = clock
        self._samples: deque[_Sample] = deque()

    def measure(self, look: Look | None, offsets: Mapping[TopicPartition, int], *, parallelism: int) -> Load | None:
        """The load now; None where it is unknown, or as it was a moment ago.

        Called after each checkpoint, and by the lag clock where none completes.

        :param offsets: next offset of each partition after the last completed checkpoint.
        :param parallelism: of that checkpoint; 0 before the first.
        """
        if look is None:
            return None
        now = self._clock()
        if self._samples and now - self._samples[-1].at < _MIN_SECONDS:
            return None
        sample = _Sample(now, now - look.age, offsets, look.ends, self._busy_millis())
        while len(self._samples) > 1 and now - self._samples[1].at >= self._window:
            self._samples.popleft()
        self._samples.append(sample)
        first = self._samples[0]
        if now - first.at < _MIN_SECONDS or sample.looked_at - first.looked_at < _MIN_SECONDS / 2:
            return None  # what has arrived is unknown
        return _load_of(first, sample, subtasks=parallelism or self._parallelism)


def _load_of(first: _Sample, last: _Sample, *, subtasks: int) -> Load:
    seconds, between_looks = last.at - first.at, last.looked_at - first.looked_at
    loads = []
    for partition, end in last.ends.items():
        offset = last.offsets.get(partition, end)
        arrived = end - first.ends.get(partition, end)
        loads.append(
            PartitionLoad(
                *partition, lag=max(0, end - offset),
                arrived_per_second=_rate(arrived, between_looks),
                read_per_second=_rate(offset - first.offsets.get(partition, offset), seconds),
            )
        )  # fmt: skip
    busy = (last.busy_millis - first.busy_millis) / (10 * seconds * max(1, subtasks))
    loads.sort(key=lambda each: (-each.lag - _AHEAD_SECONDS * each.arrived_per_second, each))
    return Load(
        window_millis=round(seconds * 1000),
        busy_percent=max(0, min(100, round(busy))),
        lag=sum(each.lag for each in loads),
        arrived_per_second=sum(each.arrived_per_second for each in loads),
        read_per_second=sum(each.read_per_second for each in loads),
        partitions=len(loads),
        heaviest=tuple(loads[:MAX_PARTITION_LOADS]),
    )


def _rate(records: int, seconds: float) -> int:
    """Records a second."""
    return round(max(0, records) / seconds)
