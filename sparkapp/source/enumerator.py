"""The enumerator: knows the partitions and fixes, for each checkpoint, what is read (one per job, on the driver)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparkapp.model.errors import OffsetsWentBackwards, TopicNotFound
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.source.cluster import ClusterView
from sparkapp.source.group_membership import GroupMembership
from sparkapp.source.offsets_initializer import OffsetsInitializer
from sparkapp.source.subscriber import Subscriber

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """What a discovery found."""

    new: frozenset[TopicPartition]
    removed: frozenset[TopicPartition]


class KafkaSourceEnumerator:
    """Tracks where every subscribed partition goes on, and turns what is available into splits.

    Used from one thread: :meth:`start` once, then :meth:`plan` and :meth:`complete` in turns.

    :param discovery_interval: seconds between discoveries; at most 0 discovers once, at the start.
    :param max_offsets: cap of one checkpoint, shared among partitions in proportion to their lag (case S39).
    :param warn: told of what a person should know, with an event's reason and message.
    :param membership: where the job shares its partitions with other members of a consumer group: which ones are ours,
        and where they go on.
    """

    def __init__(
        self,
        *,
        cluster: ClusterView,
        subscriber: Subscriber,
        initializer: OffsetsInitializer,
        discovery_interval: float,
        max_offsets: int,
        warn: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
        membership: GroupMembership | None = None,
    ) -> None:
        self._cluster = cluster
        self._subscriber = subscriber
        self._initializer = initializer
        self._interval = discovery_interval
        self._max_offsets = max_offsets
        self._warn = warn
        self._clock = clock
        self._membership = membership
        self._next: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._discovered_at = clock()

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """Where each partition goes on after the last completed checkpoint."""
        return self._next

    @property
    def lag(self) -> int:
        """Records between what is completed and the ends seen by the last plan."""
        return sum(max(0, end - self._next.get(partition, end)) for partition, end in self._ends.items())

    def start(self, restored: Mapping[TopicPartition, int] | None) -> None:
        """Discovers partitions and places each one.

        :param restored: offsets of the restored checkpoint, or None on a first start. Restored partitions go on
            there; ones that no longer match the subscription are dropped with a warning; all others begin EARLIEST
            (seed 000), for records they got while nobody looked must not be lost.
        :raises TopicNotFound: nothing to read at all, or a named topic is missing.
        """
        found = self._subscriber.partitions(self._cluster.topics())
        if restored is None and not found:
            msg = f"{self._subscriber.describe()} matches no topic with a partition"
            raise TopicNotFound(msg)
        if self._membership is not None:
            self._next = self._membership.start(restored, found)
            return
        if restored is None:
            self._next = dict(self._initializer.offsets(sorted(found), self._cluster))
            return
        kept = {
            partition: offset for partition, offset in restored.items() if self._subscriber.matches(partition.topic)
        }
        for partition in sorted(set(restored) - set(kept)):
            self._warn(
                "PartitionRemoved",
                f"{partition} of the restored checkpoint is no longer part of {self._subscriber.describe()}: not read",
            )
        gone = sorted(partition for partition in kept if partition not in found)
        if gone:
            shown = ", ".join(map(str, gone[:5]))
            msg = f"partition {shown} of the restored checkpoint no longer exists on the Kafka brokers"
            raise TopicNotFound(msg)
        unknown = sorted(found - set(kept))
        self._next = kept | self._cluster.earliest(unknown)
        if unknown and restored:
            self._announce(unknown)

    def discover_if_due(self) -> PartitionChange | None:
        """Looks for new partitions once the interval has passed; new ones begin EARLIEST, always."""
        if self._interval <= 0 or self._clock() - self._discovered_at < self._interval:
            return None
        self._discovered_at = self._clock()
        found = self._subscriber.partitions(self._cluster.topics())
        if self._membership is not None:
            self._membership.discovered(found)
            return None
        new = sorted(found - set(self._next))
        removed = frozenset(set(self._next) - found)
        if removed:
            shown = ", ".join(str(partition) for partition in sorted(removed)[:5])
            msg = f"partition {shown} no longer exists on the Kafka brokers"
            raise TopicNotFound(msg)
        if new:
            self._next |= self._cluster.earliest(new)
            self._announce(new)
        return PartitionChange(frozenset(new), removed)

    def plan(self) -> tuple[KafkaPartitionSplit, ...]:
        """The splits of the next checkpoint, one a known partition, from where it goes on to a fixed end.

        :raises OffsetsWentBackwards: a partition ends before the offset it should go on at (case S40).
        """
        if self._membership is not None:
            self._next = self._membership.take()
        self._ends = self._cluster.latest(sorted(self._next))
        backlog = {}
        for partition, start in self._next.items():
            end = self._ends[partition]
            if end < start:
                msg = f"{partition}: offset was changed from {start} to {end}; topic recreated, or records lost"
                raise OffsetsWentBackwards(msg)
            backlog[partition] = end - start
        if self._membership is not None and not any(backlog.values()):
            self._membership.release()
        share = shares(backlog, self._max_offsets)
        return tuple(
            KafkaPartitionSplit(partition, start, start + share[partition])
            for partition, start in sorted(self._next.items())
        )

    def unplanned(self) -> tuple[KafkaPartitionSplit, ...]:
        """Every partition with an empty range, for a checkpoint that reads nothing."""
        return tuple(KafkaPartitionSplit(partition, start, start) for partition, start in sorted(self._next.items()))

    def complete(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        """The checkpoint with these splits is final: go on after them."""
        if self._membership is not None:
            self._next = self._membership.complete(splits)
            return
        self._next |= {split.partition: split.stop for split in splits}

    def _announce(self, partitions: list[TopicPartition]) -> None:
        shown = ", ".join(str(partition) for partition in partitions[:5]) + (" …" if len(partitions) > 5 else "")
        self._warn("PartitionAdded", f"{len(partitions)} new partition(s), read from the earliest offset: {shown}")


def shares(backlog: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    """Divides at most ``limit`` offsets among partitions in proportion to their backlog.

    Rounded down, the remainder given one each to the largest fractions first: the sum never exceeds the limit and no
    partition with a backlog starves for ever, for its fraction grows with it.
    """
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog)
    exact = {partition: size * limit / total for partition, size in backlog.items()}
    result = {partition: int(share) for partition, share in exact.items()}
    rest = limit - sum(result.values())
    for partition in sorted(exact, key=lambda one: (result[one] - exact[one], one)):
        if rest <= 0:
            break
        if result[partition] < backlog[partition]:
            result[partition] += 1
            rest -= 1
    return result
