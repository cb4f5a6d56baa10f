"""Where partitions begin on a job's first start (seed 000's startup modes)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sparkapp.model.errors import UndefinedOffset
from sparkapp.model.job import ResetStrategy, Source, StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.source.cluster import ClusterView


class OffsetsInitializer(Protocol):
    """Gives each partition its first offset."""

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        """Real offsets, never markers, so that they can be written down before anything is read.

        :raises UndefinedOffset: a partition has none and no strategy replaces it.
        """
        ...


class EarliestOffsetsInitializer:
    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        return cluster.earliest(partitions)


class LatestOffsetsInitializer:
    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        return cluster.latest(partitions)


class CommittedOffsetsInitializer:
    """The group's committed offsets; the reset strategy decides for partitions without one (cases S23, S24)."""

    def __init__(self, on_missing: ResetStrategy) -> None:
        self._on_missing = on_missing

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        found = cluster.committed(wanted)
        missing = [partition for partition in wanted if partition not in found]
        if not missing:
            return found
        if self._on_missing is ResetStrategy.NONE:
            shown = ", ".join(str(partition) for partition in sorted(missing)[:5])
            msg = f"Undefined offset with no reset policy for partition {shown}"
            raise UndefinedOffset(msg)
        rest = cluster.earliest(missing) if self._on_missing is ResetStrategy.EARLIEST else cluster.latest(missing)
        return found | rest


def initializer_of(source: Source) -> OffsetsInitializer:
    """The initializer of the job's startup mode."""
    match source.startup:
        case StartupMode.EARLIEST:
            return EarliestOffsetsInitializer()
        case StartupMode.LATEST:
            return LatestOffsetsInitializer()
        case StartupMode.GROUP_OFFSETS:
            return CommittedOffsetsInitializer(source.on_missing_offset)
