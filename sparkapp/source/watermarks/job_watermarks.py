"""The watermarks of an attempt, kept by the driver. Pure but for the clock."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.source.watermarks.subtask_watermark import NO_LIMIT, NO_WATERMARK, GivenWatermarks, ReachedWatermarks

_LOOK_SECONDS = 1.0
"""Between two looks at a job without checkpoints: 10,000 partitions take some 20 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkSnapshot:
    """One moment, for metrics; watermarks in milliseconds since 1970. What has no watermark yet is absent.

    :param job: None before the first.
    :param idle: of each partition, whether it is left out.
    :param paused: of each partition, whether it has unread records of which the last checkpoint reads none.
    """

    job: int | None = None
    subtasks: Mapping[int, int] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)
    idle: Mapping[TopicPartition, bool] = field(default_factory=dict)
    paused: Mapping[TopicPartition, bool] = field(default_factory=dict)


class JobWatermarks:
    """Used by the continuous engine, in its thread; :attr:`snapshot` from any thread.

    The driver keeps the watermarks, because a subtask whose executor is lost begins again in another process. A subtask
    gets those of its partitions with each checkpoint, so they move with a partition.

    :param parallelism: number of subtasks.
    :param idle_timeout: seconds without records after which a partition without unread records is idle; 0 for never.
    :param pieces: whether any subtask may read any partition, not only its owner. Then each partition holds all back.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self,
        *,
        parallelism: int,
        idle_timeout: float,
        pieces: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = idle_timeout
        self._pieces = pieces
        self._clock = clock
        self._job = NO_WATERMARK
        self._subtasks = dict.fromkeys(range(parallelism), NO_WATERMARK)
        self._partitions: dict[TopicPartition, int] = {}
        self._owners: dict[TopicPartition, int] = {}
        self._silent_since: dict[TopicPartition, float] = {}
        self._idle: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._looked_at = -_LOOK_SECONDS
        self.snapshot = WatermarkSnapshot()

    @property
    def is_look_due(self) -> bool:
        """Whether :meth:`look` is worth a call while nothing is read."""
        return self._clock() - self._looked_at >= _LOOK_SECONDS

    def look(
        self,
        splits: Iterable[KafkaPartitionSplit],
        *,
        ends: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
    ) -> None:
        """Finds the partitions that are idle now; called while nothing is read.

        :param splits: every known partition, with an empty range.
        :param ends: last known end of each partition.
        :param stops: stopping offsets of a bounded job. A partition behind its stop holds nothing back.
        """
        self._paused &= self._look(tuple(splits), ends, stops)
        self._advance()

    def _look(
        self,
        splits: Collection[KafkaPartitionSplit],
        ends: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
    ) -> set[TopicPartition]:
        """Finds the idle partitions; returns those with records that no checkpoint reads yet."""
        now = self._looked_at = self._clock()
        known = [split for split in splits if split.size or split.stop < stops.get(split.partition, NO_LIMIT)]
        unread = {split.partition for split in known if split.stop < ends.get(split.partition, 0)}
        reads = {split.partition for split in known if split.size}
        self._partitions = {each.partition: self._partitions.get(each.partition, NO_WATERMARK) for each in known}
        self._silent_since = {each: self._silent_since.get(each, now) for each in self._partitions}
        for partition in self._partitions.keys() - self._owners.keys():
            self._owners[partition] = split_owner(*partition, len(self._subtasks))
        self._idle = {
            partition
            for partition, since in self._silent_since.items()
            if 0 < self._timeout <= now - since and partition not in reads and partition not in unread
        }
        return unread

    def begin(
        self,
        splits: Iterable[KafkaPartitionSplit],
        work: Mapping[int, tuple[KafkaPartitionSplit, ...]],
        *,
        ends: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
    ) -> dict[int, GivenWatermarks]:
        """What each subtask needs to know with its splits; the parameters are those of :meth:`look`, with the ranges.

        :param work: the non-empty splits of each subtask.
        """
        reads = {split.partition for part in work.values() for split in part}
        self._paused = self._look(tuple(splits), ends, stops) - reads
        self._advance()
        active = self._active_by_subtask()
        return {
            subtask: self._given(subtask, {split.partition for split in part}, active.get(subtask, ()))
            for subtask, part in work.items()
        }

    def _given(
        self, subtask: int, reads: Collection[TopicPartition], active: Iterable[TopicPartition]
    ) -> GivenWatermarks:
        return GivenWatermarks(
            own=self._subtasks[subtask],
            others=next((self._partitions[each] for each in active if each not in reads), NO_LIMIT),
            partitions={each: self._partitions[each] for each in reads},
        )

    def end(self, reached: Mapping[int, ReachedWatermarks]) -> None:
        """All subtasks have read their splits; called once a checkpoint, in order.

        :param reached: by each subtask that had splits.
        """
        now = self._clock()
        for subtask, answer in reached.items():
            self._subtasks[subtask] = max(self._subtasks[subtask], answer.own)
            for partition in answer.partitions.keys() & self._partitions.keys():
                self._partitions[partition] = max(self._partitions[partition], answer.partitions[partition])
                self._silent_since[partition] = now
        self._advance()

    def rescale(self, parallelism: int) -> None:
        """Partitions move to other subtasks, between two checkpoints.

        Each subtask begins again with the least watermark of its partitions. So none is ahead of a partition that it
        gets. The job's watermark does not go back.
        """
        self._subtasks = dict.fromkeys(range(parallelism), NO_WATERMARK)
        self._owners.clear()

    def _advance(self) -> None:
        """Subtasks and job never go back, whichever partitions they get."""
        found = self._active_by_subtask()
        self._subtasks |= {
            subtask: max(self._subtasks[subtask], self._partitions[active[0]]) for subtask, active in found.items()
        }
        self._job = max(self._job, min((self._subtasks[subtask] for subtask in found), default=NO_WATERMARK))
        self.snapshot = WatermarkSnapshot(
            job=None if self._job == NO_WATERMARK else self._job,
            subtasks={each: millis for each, millis in self._subtasks.items() if millis != NO_WATERMARK},
            partitions={each: millis for each, millis in self._partitions.items() if millis != NO_WATERMARK},
            idle={each: each in self._idle for each in self._partitions},
            paused={each: each in self._paused for each in self._partitions},
        )

    def _active_by_subtask(self) -> dict[int, list[TopicPartition]]:
        """The active partitions of each subtask, the least watermark first; without any it is absent."""
        active = sorted(self._partitions.keys() - self._idle, key=self._partitions.__getitem__)
        if self._pieces:
            return dict.fromkeys(self._subtasks, active) if active else {}
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition in active:
            found[self._owners[partition]].append(partition)
        return found


def job_watermarks_of(spec: JobSpec) -> JobWatermarks | None:
    """Those of a job's attempt; None for a job without ``source.watermarks``. Called by the continuous engine."""
    if spec.source.max_out_of_orderness_seconds is None:
        return None
    return JobWatermarks(
        parallelism=spec.parallelism,
        idle_timeout=spec.source.idle_timeout_seconds,
        pieces=spec.source.max_records_per_split > 0,
    )
