"""What driver and subtasks of the local pace do, step by step (ADR 56), over brokers in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator, LocalTotals
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition


class Instance(Protocol):
    """Of a subtask: a producer with its only initialisation."""

    def write(self, splits: Iterable[KafkaPartitionSplit], mark: str) -> None:
        """A transaction that is complete but for its commit. :raises TransactionFenced: a later producer has the id."""
        ...

    def commit(self) -> None:
        """:raises TransactionFenced: a later producer has the id."""
        ...


class LocalSubtasks:
    """The subtasks of an attempt, and what their driver does for them; a test takes the steps.

    An instance writes after its grant, and reads a partition after it is recorded as placed.

    :param coordinator: of the driver; it is the real coordinator.
    :param offsets: where each partition continues. :param opened: opens a new instance of a subtask.
    :param owner: the subtask that reads a partition.
    :ivar marks: the text that each granted instance commits with its offsets.
    :ivar under_way: the splits of each open transaction.
    :ivar unrecorded: starts that are placed, of which the document says nothing yet. :ivar readable: what may be read.
    :ivar reported: what the driver has heard of commits. :ivar commits: how many it has heard of.
    """

    def __init__(
        self,
        coordinator: LocalCoordinator,
        offsets: dict[TopicPartition, int],
        *,
        opened: Callable[[int], Instance],
        owner: Callable[[TopicPartition], int],
    ) -> None:
        self.coordinator = coordinator
        self.offsets = offsets
        self.owner = owner
        self.is_granted = False
        self.instances: dict[int, Instance] = {}
        self.marks: dict[int, str] = {}
        self.under_way: dict[int, list[KafkaPartitionSplit]] = {}
        self.unrecorded: dict[TopicPartition, int] = {}
        self.readable: set[TopicPartition] = set()
        self.reported: dict[TopicPartition, int] = {}
        self.commits = 0
        self._opened = opened

    def of(self, subtask: int) -> list[TopicPartition]:
        """The partitions that the subtask reads."""
        return [partition for partition in self.offsets if self.owner(partition) == subtask]

    def open(self, subtask: int) -> None:
        """Opens a new instance, which fences the instance before."""
        self.give_up(subtask)
        self.instances[subtask] = self._opened(subtask)
        self.readable -= set(self.of(subtask))

    def grant(self, topic_ids: Mapping[str, str] | None = None) -> None:
        """The driver grants the first instances."""
        splits = tuple(KafkaPartitionSplit(partition, at, at) for partition, at in sorted(self.offsets.items()))
        self.coordinator.grant(splits, topic_ids=topic_ids)
        self.is_granted = True
        self.marks = dict.fromkeys(self.instances, self.coordinator.mark)

    def grant_again(self, subtask: int) -> None:
        """The driver grants a later instance."""
        self.offsets |= self.coordinator.grant_again(self.of(subtask), set)
        self.marks[subtask] = self.coordinator.mark

    def place(self, subtask: int, *partitions: TopicPartition) -> None:
        """The group gets the starts of these partitions of the subtask, or of all, in one transaction."""
        starts = {partition: self.offsets[partition] for partition in partitions or self.of(subtask)}
        self._write(subtask, dict.fromkeys(starts, 0))
        self._commit(subtask)
        self.unrecorded |= starts

    def placed(self) -> None:
        """The driver records what was placed."""
        if self.unrecorded:
            self.coordinator.placed(self.unrecorded)
            self.readable |= {partition for partition in self.unrecorded if self.owner(partition) in self.instances}
            self.unrecorded = {}

    def write(self, subtask: int, counts: Mapping[TopicPartition, int]) -> None:
        """A transaction with so many of the next offsets of each partition, complete but for its commit."""
        assert counts.keys() <= self.readable, "a partition is read before it is recorded as placed"
        self._write(subtask, counts)

    def commit(self, subtask: int) -> None:
        """Commits it, and reports that."""
        ends = self._commit(subtask)
        self.offsets |= ends
        self.reported |= ends
        self.commits += 1

    def record(self) -> None:
        """The driver records what was reported."""
        self.coordinator.record(self.reported, LocalTotals(transactions=self.commits))

    def give_up(self, subtask: int) -> None:
        """The instance ends: its commit has no clear answer, it is fenced, or its process is lost."""
        self.instances.pop(subtask, None)
        self.marks.pop(subtask, None)
        self.under_way.pop(subtask, None)

    def drain(self) -> None:
        """An orderly end, when no transaction is open."""
        if self.is_granted:
            self.record()
        self.coordinator.drained()

    def _write(self, subtask: int, counts: Mapping[TopicPartition, int]) -> None:
        starts = {partition: self.offsets[partition] for partition in counts}
        splits = [KafkaPartitionSplit(partition, at, at + counts[partition]) for partition, at in starts.items()]
        self.instances[subtask].write(splits, self.marks[subtask])
        self.under_way[subtask] = splits

    def _commit(self, subtask: int) -> dict[TopicPartition, int]:
        splits = self.under_way.pop(subtask)
        self.instances[subtask].commit()
        return {split.partition: split.stop for split in splits}
