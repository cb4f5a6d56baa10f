"""Partitions that do not exist any more, until the document has forgotten them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sparkapp.model.errors import OffsetsOvertaken
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.source.enumerator.discovery import PartitionChange
from sparkapp.spark.engine.continuous.local.granted_subtask import GrantedSubtask
from sparkapp.spark.tasks.control_frames import InstanceOrder


class GonePartitions:
    """What a discovery has found to be gone; used by the driver of the local pace, in its thread.

    A topic may come back under its name. The document would then have an offset of the topic before. So nothing of the
    name is placed until the document has forgotten the partitions.
    """

    def __init__(self, subtasks: Mapping[int, GrantedSubtask]) -> None:
        self._subtasks = subtasks
        self._partitions: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def __contains__(self, partition: object) -> bool:
        return partition in self._partitions

    def add(self, change: PartitionChange) -> list[tuple[int, InstanceOrder]]:
        """Called with what a discovery has found; returns what the subtasks are to be told.

        :raises OffsetsOvertaken: a topic was recreated since the discovery before. This era may have committed offsets
            of it, which only another attempt leaves out.
        """
        if change.recreated:
            msg = f"topic {', '.join(sorted(change.recreated))} was recreated: the next attempt reads it"
            raise OffsetsOvertaken(msg, remedy="")
        self._partitions |= change.removed
        orders = []
        for number, subtask in self._subtasks.items():
            subtask.failures.forget(change.removed)
            gone = change.removed & subtask.assigned
            if gone and not subtask.ending:
                subtask.ending = True
                orders.append((number, InstanceOrder(instance=subtask.instance, drop=tuple(sorted(gone)))))
        return orders

    def kept(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Those that may be placed. Parts of a topic never are: the document has one id for all of it."""
        topics = {partition.topic for partition in self._partitions}
        return {partition: at for partition, at in starts.items() if partition.topic not in topics}

    def forgettable(self) -> frozenset[TopicPartition]:
        """Those that no instance can commit any more: their subtask's present instance has fenced the others."""
        return frozenset(each for each in self._partitions if self._is_left(each))

    def forgotten(self, partitions: Collection[TopicPartition]) -> None:
        """Called when the document is written without these."""
        self._partitions -= set(partitions)

    def _is_left(self, partition: TopicPartition) -> bool:
        owner = self._subtasks[split_owner(*partition, len(self._subtasks))]
        return owner.opened and partition not in owner.assigned
