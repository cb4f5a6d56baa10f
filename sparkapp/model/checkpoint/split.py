"""Splits: the unit of reading, a topic partition with a start and a stop."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition, split_owner

Offsets = Mapping[TopicPartition, int]
"""Next offset to read, by partition."""

ENDLESS = 1 << 62
"""Stop of a split that is read without end: no partition has such an offset."""


@dataclass(frozen=True, slots=True, order=True)
class KafkaPartitionSplit:
    """The records of a partition with ``start <= offset < stop``.

    The enumerator creates it for a checkpoint, the owning subtask reads it, and the checkpoint document holds it.
    ``start == stop`` is allowed: the partition is known and had no new records (case S25).
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
        """Upper bound of the records in it: compacted and control records have offsets, too."""
        return self.stop - self.start

    def owner(self, parallelism: int) -> int:
        """The subtask that reads this split."""
        return split_owner(self.partition.topic, self.partition.partition, parallelism)


def split_rows(splits: Iterable[KafkaPartitionSplit]) -> list[tuple[str, int, int, int]]:
    """Splits in JSON; also called for the options of a micro-batch's source."""
    return [(*split.partition, split.start, split.stop) for split in splits]


def splits_of(rows: Iterable[tuple[str, int, int, int]], _: str = "") -> tuple[KafkaPartitionSplit, ...]:
    """:func:`split_rows` read back."""
    return tuple(
        KafkaPartitionSplit(TopicPartition(topic, partition), start, stop) for topic, partition, start, stop in rows
    )


SPLIT_ROWS: Mapping[str, Any] = {"read": splits_of, "write": split_rows}
"""How fields of frames hold splits, for ``stored``: an attempt of ten thousand partitions sends all with each
checkpoint."""


def splits_by_owner(
    splits: Iterable[KafkaPartitionSplit], parallelism: int
) -> dict[int, tuple[KafkaPartitionSplit, ...]]:
    """The splits by owner, sorted; subtasks without splits are absent."""
    groups: dict[int, list[KafkaPartitionSplit]] = {}
    for split in sorted(splits):
        groups.setdefault(split.owner(parallelism), []).append(split)
    return {subtask: tuple(groups[subtask]) for subtask in sorted(groups)}


def splits_by_subtask(
    splits: Iterable[KafkaPartitionSplit], parallelism: int
) -> dict[int, tuple[KafkaPartitionSplit, ...]]:
    """The non-empty splits by owner, sorted; subtasks without splits are absent."""
    return splits_by_owner((split for split in splits if split.size), parallelism)


def cut_at(splits: Iterable[KafkaPartitionSplit], stops: Offsets) -> tuple[KafkaPartitionSplit, ...]:
    """The splits, each cut at the stop of its partition if that comes first. Pure."""
    return tuple(
        KafkaPartitionSplit(split.partition, split.start, min(split.stop, stops.get(split.partition, split.stop)))
        for split in splits
    )


class Assignment(NamedTuple):
    """The splits of each subtask in a checkpoint.

    :param by_subtask: at most one range per partition and subtask; subtasks without splits are absent.
    :param is_cut: whether several subtasks read the same partition, so that no transaction can hold its offset.
    """

    by_subtask: dict[int, tuple[KafkaPartitionSplit, ...]]
    is_cut: bool


def assign(splits: Iterable[KafkaPartitionSplit], parallelism: int, max_records: int) -> Assignment:
    """Assigns the splits to the subtasks, large splits in pieces. Pure; called by the engine for each checkpoint.

    A split of at most ``max_records`` is assigned whole to its owner. A larger split is cut into contiguous pieces of
    equal size: as few as the limit allows, at most one per subtask. The pieces are assigned to the subtasks with the
    fewest records. Only tasks have pieces: the document and the enumerator hold a single range per partition.

    :param max_records: ``source.limits.maxRecordsPerSplit``; 0 cuts nothing.
    """
    non_empty = [split for split in splits if split.size]
    large = [split for split in non_empty if max_records and split.size > max_records and parallelism > 1]
    if not large:
        return Assignment(splits_by_subtask(non_empty, parallelism), is_cut=False)
    whole = splits_by_subtask((split for split in non_empty if split.size <= max_records), parallelism)
    groups = {subtask: list(whole.get(subtask, ())) for subtask in range(parallelism)}
    loads = [(sum(split.size for split in group), subtask) for subtask, group in groups.items()]
    heapq.heapify(loads)
    for split in sorted(large, key=lambda split: (-split.size, split)):
        count = min(parallelism, -(-split.size // max_records))
        idlest = [heapq.heappop(loads) for _ in range(count)]
        for piece, (load, subtask) in zip(_pieces(split, count), idlest, strict=True):
            groups[subtask].append(piece)
            heapq.heappush(loads, (load + piece.size, subtask))
    return Assignment({subtask: tuple(sorted(group)) for subtask, group in groups.items() if group}, is_cut=True)


def _pieces(split: KafkaPartitionSplit, count: int) -> list[KafkaPartitionSplit]:
    bounds = [split.start + split.size * number // count for number in range(count + 1)]
    return [KafkaPartitionSplit(split.partition, *pair) for pair in itertools.pairwise(bounds)]
