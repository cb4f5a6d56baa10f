"""Starting offsets of partitions that a consumer group has just assigned to this job (ADR 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sparkapp.clients.cluster_view import ClusterView
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.partition import TopicPartition
from sparkapp.source.offsets_initializer import OffsetsInitializer, outside_the_log

Tell = Callable[[DriverEvent, str, bool], None]
"""Receives an event's reason, its message, and whether it is a warning."""


class GroupStarts:
    """Places partitions at the group's offsets, else at the checkpoint's, else as on a first start.

    Partitions that were added later begin Earliest (Flink's KafkaSourceEnumerator). Used by the membership, in the
    engine's thread.

    The group's offsets win: the previous owner of the partition has committed further, or a person has moved the group.
    The checkpoint counts where the group has no offset, because nothing was committed yet or the offsets have expired.

    :param initializer: places partitions on a first start, and partitions whose committed offset is outside the log.
    :param tell: receives ``PartitionBeyondEnd``.
    """

    def __init__(self, cluster: ClusterView, initializer: OffsetsInitializer, tell: Tell) -> None:
        self._cluster = cluster
        self._initializer = initializer
        self._tell = tell
        self._restored: Mapping[TopicPartition, int] = {}
        self._first_found: frozenset[TopicPartition] = frozenset()
        self._beyond: set[TopicPartition] = set()

    def remember(
        self, restored: Mapping[TopicPartition, int] | None, found: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Takes the offsets of the attempt's start.

        :param restored: the checkpoint's offsets, None on a first start.
        :returns: the offsets of partitions that were found.
        """
        self._restored = {partition: offset for partition, offset in (restored or {}).items() if partition in found}
        self._first_found = found if restored is None else frozenset()
        return dict(self._restored)

    def of(self, new: Iterable[TopicPartition]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Starting offsets of newly assigned partitions: those that the group has committed, and all others.

        The initializer's reset strategy replaces a committed offset outside the log, with a warning. Without a strategy
        the offset stays, and the plan or the read ends the attempt (``OffsetsWentBackwards``). Another member may have
        read a partition beyond the end of our isolation level. It is left out until the end has reached the offset.

        :raises UndefinedOffset: a partition has no offset, and no strategy gives it an offset.
        """
        wanted = sorted(new)
        known = self._cluster.committed(wanted)
        outside = sorted(outside_the_log(known, self._cluster))
        replaced = self._initializer.offsets(outside, self._cluster) if outside else {}
        known = {partition: offset for partition, offset in known.items() if partition not in replaced}
        missing = [partition for partition in wanted if partition not in known and partition not in replaced]
        fixed = {partition: self._restored[partition] for partition in missing if partition in self._restored}
        first = [partition for partition in missing if partition not in fixed and partition in self._first_found]
        later = [partition for partition in missing if partition not in fixed and partition not in self._first_found]
        fixed |= self._initializer.offsets(first, self._cluster) if first else {}
        fixed |= self._cluster.earliest(later) if later else {}
        fixed |= replaced
        ends = self._cluster.latest(sorted(known))
        self._tell_beyond(
            {partition: (offset, ends[partition]) for partition, offset in known.items() if ends[partition] < offset}
        )
        return {partition: offset for partition, offset in known.items() if partition not in self._beyond}, fixed

    def _tell_beyond(self, beyond: Mapping[TopicPartition, tuple[int, int]]) -> None:
        for partition in sorted(beyond.keys() - self._beyond):
            offset, end = beyond[partition]
            self._tell(
                DriverEvent.PARTITION_BEYOND_END,
                f"{partition}: the group has committed {offset}, beyond the readable end {end} (an open transaction"
                " that another member did not wait for). The job reads it when the end reaches the offset;"
                " `kafka-consumer-groups.sh --reset-offsets` sets the group back",
                True,
            )
        self._beyond = set(beyond)
