"""Where a partition goes on that a consumer group has just given to this job (ADR 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sparkapp.model.partition import TopicPartition
from sparkapp.source.cluster import ClusterView
from sparkapp.source.offsets_initializer import OffsetsInitializer, outside_the_log

Tell = Callable[[str, str, bool], None]
"""Told an event's reason, its message, and whether it is a warning."""


class GroupStarts:
    """Places partitions at the group's offsets, else the checkpoint's, else as on a first start; partitions that came
    later begin EARLIEST (seed 000). Used by the membership, in the engine's thread.

    The checkpoint comes second, for whoever had the partition last has committed further, or a person moved the group
    on purpose; it counts where the group has nothing, because nothing was committed yet or the offsets have expired.

    :param initializer: for a first start, and partitions without a committed offset in the log.
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
        """What the attempt starts from.

        :param restored: the checkpoint's offsets, None on a first start.
        :returns: those of partitions that were found.
        """
        self._restored = {one: offset for one, offset in (restored or {}).items() if one in found}
        self._first_found = found if restored is None else frozenset()
        return dict(self._restored)

    def of(self, new: Iterable[TopicPartition]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Where these begin: as far as the group knows it, and where it does not.

        A committed offset that the log does not hold is for the initializer, whose reset strategy replaces it and says
        so. Without a strategy it stays, and the plan or the read ends the attempt (``OffsetsWentBackwards``). A
        partition that the group has read beyond what our isolation level reaches is left out until the end has caught
        up.

        :raises UndefinedOffset: a partition has none and no strategy replaces it.
        """
        wanted = sorted(new)
        known = self._cluster.committed(wanted)
        outside = sorted(outside_the_log(known, self._cluster))
        replaced = self._initializer.offsets(outside, self._cluster) if outside else {}
        known = {one: offset for one, offset in known.items() if one not in replaced}
        missing = [one for one in wanted if one not in known and one not in replaced]
        fixed = {one: self._restored[one] for one in missing if one in self._restored}
        first = [one for one in missing if one not in fixed and one in self._first_found]
        later = [one for one in missing if one not in fixed and one not in self._first_found]
        fixed |= self._initializer.offsets(first, self._cluster) if first else {}
        fixed |= self._cluster.earliest(later) if later else {}
        fixed |= replaced
        ends = self._cluster.latest(sorted(known))
        self._tell_beyond({one: (offset, ends[one]) for one, offset in known.items() if ends[one] < offset})
        return {one: offset for one, offset in known.items() if one not in self._beyond}, fixed

    def _tell_beyond(self, beyond: Mapping[TopicPartition, tuple[int, int]]) -> None:
        for one in sorted(beyond.keys() - self._beyond):
            offset, end = beyond[one]
            self._tell(
                "PartitionBeyondEnd",
                f"{one}: the group has committed {offset}, and records can be read up to {end} (an open transaction"
                " that another member did not wait for): not read until the end is there;"
                " kafka-consumer-groups --reset-offsets sets the group back",
                True,
            )
        self._beyond = set(beyond)
