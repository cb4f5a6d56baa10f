"""Bookkeeping of one partition of a consumer that lives across bounded reads; both implementations keep it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit

IDLE_READS = 16
"""A partition that so many reads in a row do not name is given back; one that was only idle for a while keeps its
prefetch and spares the broker a new start."""


@dataclass(slots=True)
class Lane:
    """One assigned partition.

    :param position: where the last read ended; the next offset that the caller has not been given.
    :param idle_reads: reads in a row that did not name the partition.
    """

    position: int
    idle_reads: int = 0


@dataclass(frozen=True, slots=True)
class Alignment:
    """What has to change before the splits can be read: drop first, then add at the splits' starts."""

    drop: tuple[TopicPartition, ...]
    add: tuple[KafkaPartitionSplit, ...]


def align(lanes: dict[TopicPartition, Lane], splits: Iterable[KafkaPartitionSplit]) -> Alignment:
    """Brings the lanes to what the splits ask for; a split that starts at its lane's position goes on unmoved.

    Empty splits are left out: there is nothing to assign for them.

    :raises InvalidArgument: two splits of one partition.
    """
    wanted = one_split_a_partition(splits)
    drop, add = [], []
    for partition, lane in list(lanes.items()):
        if partition in wanted:
            lane.idle_reads = 0
        else:
            lane.idle_reads += 1
            if lane.idle_reads >= IDLE_READS:
                drop.append(partition)
                del lanes[partition]
    for partition, split in wanted.items():
        known = lanes.get(partition)
        if known is not None and known.position == split.start:
            continue
        if known is not None:
            drop.append(partition)
        add.append(split)
        lanes[partition] = Lane(position=split.start)
    return Alignment(tuple(drop), tuple(add))


def one_split_a_partition(splits: Iterable[KafkaPartitionSplit]) -> dict[TopicPartition, KafkaPartitionSplit]:
    """The non-empty splits by partition.

    :raises InvalidArgument: two splits of one partition.
    """
    wanted: dict[TopicPartition, KafkaPartitionSplit] = {}
    for split in splits:
        if split.size and wanted.setdefault(split.partition, split) is not split:
            msg = f"two splits of {split.partition} in one read"
            raise InvalidArgument(msg)
    return wanted
