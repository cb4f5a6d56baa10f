"""Counts failures and losses of a subtask that has made no progress between them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from sparkapp.model.errors import OffsetsWentBackwards, SubtaskMissing
from sparkapp.model.errors.listed import listed
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.failures import MAX_FAILURES, original_error, while_reading
from sparkapp.spark.tasks.control_frames import SubtaskReport

LOG = logging.getLogger(__name__)

_REMEDY = (
    "read the log of the executors: kubectl logs POD -n NAMESPACE. Look at these offsets for a record that ends the"
    " function's process, takes its memory, or keeps Python's global lock for 10 s"
)


class SubtaskFailures:
    """Counts the failures of a subtask's instances, and its losses.

    A record that always fails is among others: its subtask commits records of other partitions before it fails again.
    So the count begins again only when every partition of the failures is committed beyond its offset at the failure.
    """

    def __init__(self) -> None:
        self._count = 0
        self._starts: dict[TopicPartition, int] = {}
        """First uncommitted offset of each partition: read at a failure, or with records to read at a loss."""

    def add(self, number: int, report: SubtaskReport) -> None:
        """Counts a failure of a subtask.

        :raises KafkaSparkJobError: its failures are too many, or no retry helps.
        """
        self._count += 1
        self._starts |= {split.partition: split.start for split in report.reading}
        error = original_error(report.failure)
        if self._count >= MAX_FAILURES or error.fatal or isinstance(error, OffsetsWentBackwards):
            raise while_reading(error, report.reading)
        LOG.warning("subtask %d failed for the %d. time and tries again: %s", number, self._count, error.message)

    def lost(self, number: int, offsets: Mapping[TopicPartition, int], waiting: Collection[TopicPartition]) -> None:
        """Counts a loss of a subtask, by a death or by silence. Its reading is not known.

        A loss without records to read is not counted: such a subtask cannot get further.

        :param offsets: next offset of its partitions: where its last instance has begun, or has committed up to.
        :param waiting: the partitions with records to read.
        :raises SubtaskMissing: its losses and failures are too many.
        """
        if self._starts:
            self.progress(offsets)
        if not waiting:
            return
        self._count += 1
        self._starts |= {each: offsets[each] for each in waiting}
        if self._count >= MAX_FAILURES:
            places = listed(f"{partition} offset {start}" for partition, start in sorted(self._starts.items()))
            msg = f"subtask {number} was lost or failed {self._count} times and got no further than {places}"
            raise SubtaskMissing(msg, remedy=_REMEDY)
        LOG.warning("subtask %d was lost, which is failure %d without progress", number, self._count)

    def progress(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Called when the subtask has committed records; a commit of starts alone is no progress.

        :param offsets: next offset of each partition, by commits that succeeded.
        """
        self._starts = {each: at for each, at in self._starts.items() if offsets.get(each, at) <= at}
        if not self._starts:
            self._count = 0

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Leaves out partitions that are gone."""
        for partition in partitions:
            self._starts.pop(partition, None)
