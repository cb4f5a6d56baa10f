"""Subtasks of the local pace whose processes were lost."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.spark.engine.continuous.adoptions import SubtaskLosses
from sparkapp.spark.engine.continuous.local.granted_subtask import GrantedSubtask


class LostSubtasks:
    """Used by the driver of the local pace, in its thread.

    A lost process may have commits that it did not report. So its instance is ending until the next process reports.

    :param losses: of the control server.
    """

    def __init__(self, subtasks: Mapping[int, GrantedSubtask], losses: SubtaskLosses) -> None:
        self._subtasks = subtasks
        self._losses = losses
        self._uncounted: set[int] = set()

    def note(self) -> None:
        """Notes the lost processes; called before each report is applied.

        A process reports after the loss of its predecessor. So that loss never marks an instance of its own.
        """
        lost = self._losses.taken()
        self._uncounted |= lost
        for number in lost:
            self._subtasks[number].ending = True

    def unsettled(self) -> set[int]:
        """The subtasks that may have commits that they did not report."""
        self.note()
        return {number for number, each in self._subtasks.items() if not each.is_settled}

    def count(self, offsets: Mapping[TopicPartition, int], pending: Mapping[TopicPartition, int]) -> None:
        """Counts the losses since the last call.

        :param offsets: next offset of each partition, by commits that are known. :param pending: records to read.
        :raises SubtaskMissing: a subtask was lost too often without having got further.
        """
        self.note()
        lost, self._uncounted = self._uncounted, set()
        for number in lost:
            owned = {each: at for each, at in offsets.items() if split_owner(*each, len(self._subtasks)) == number}
            self._subtasks[number].failures.lost(number, owned, [each for each in owned if pending.get(each)])
