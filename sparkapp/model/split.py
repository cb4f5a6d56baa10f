"""Splits: the unit of reading, a topic partition with a start and a stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition, split_owner

Offsets = Mapping[TopicPartition, int]
"""Next offset to read, a partition."""


@dataclass(frozen=True, slots=True, order=True)
class KafkaPartitionSplit:
    """The records of a partition with ``start <= offset < stop``.

    Made by the enumerator for one checkpoint, read by the reader of the owning subtask, written into the checkpoint
    document. ``start == stop`` is allowed: the partition is known and had nothing new (case S25).
    """

    partition: TopicPartition
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            msg = f"split {self.partition} must have 0 <= start <= stop, not [{self.start}, {self.stop})"
            raise InvalidArgument(msg)

    @property
    def size(self) -> int:
        """Upper bound of the records inside (compaction and control records make it smaller)."""
        return self.stop - self.start

    def owner(self, parallelism: int) -> int:
        """The subtask that reads this split."""
        return split_owner(self.partition.topic, self.partition.partition, parallelism)


def splits_by_subtask(
    splits: Iterable[KafkaPartitionSplit], parallelism: int
) -> dict[int, tuple[KafkaPartitionSplit, ...]]:
    """Groups the non-empty splits by owner; subtasks without work are absent. Sorted, so that every caller agrees."""
    groups: dict[int, list[KafkaPartitionSplit]] = {}
    for split in sorted(splits):
        if split.size:
            groups.setdefault(split.owner(parallelism), []).append(split)
    return {subtask: tuple(groups[subtask]) for subtask in sorted(groups)}
