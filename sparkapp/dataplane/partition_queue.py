"""Positions of a consumer's partitions across bounded reads; used by both implementations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition

IDLE_READS = 16
"""Consecutive reads without a partition after which it is unassigned; a shorter idle time keeps its prefetch."""


@dataclass(slots=True)
class PartitionQueue:
    """An assigned partition.

    :param position: end of the last read; the next offset for the caller.
    :param idle_reads: consecutive reads without the partition.
    """

    position: int
    idle_reads: int = 0


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """Changes of the assignment before a read: drop first, then add at the splits' starts."""

    drop: tuple[TopicPartition, ...]
    add: tuple[KafkaPartitionSplit, ...]


def assign(queues: dict[TopicPartition, PartitionQueue], splits: Iterable[KafkaPartitionSplit]) -> AssignmentChange:
    """Assigns the splits to the queues; a split that starts at its queue's position keeps its assignment.

    Empty splits need no assignment.

    :raises InvalidArgument: two splits of one partition.
    """
    wanted = split_by_partition(splits)
    drop, add = [], []
    for partition, queue in list(queues.items()):
        if partition in wanted:
            queue.idle_reads = 0
        else:
            queue.idle_reads += 1
            if queue.idle_reads >= IDLE_READS:
                drop.append(partition)
                del queues[partition]
    for partition, split in wanted.items():
        known = queues.get(partition)
        if known is not None and known.position == split.start:
            continue
        if known is not None:
            drop.append(partition)
        add.append(split)
        queues[partition] = PartitionQueue(position=split.start)
    return AssignmentChange(tuple(drop), tuple(add))


def split_by_partition(splits: Iterable[KafkaPartitionSplit]) -> dict[TopicPartition, KafkaPartitionSplit]:
    """The non-empty splits by partition.

    :raises InvalidArgument: two splits of one partition.
    """
    wanted: dict[TopicPartition, KafkaPartitionSplit] = {}
    for split in splits:
        if split.size and wanted.setdefault(split.partition, split) is not split:
            msg = f"two splits of {split.partition} in one read"
            raise InvalidArgument(msg)
    return wanted
