"""How often a subtask has failed without having got further."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from sparkapp.model.errors import OffsetsWentBackwards
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.failures import MAX_FAILURES, original_error, while_reading
from sparkapp.spark.tasks.local.local_frames import SubtaskReport

LOG = logging.getLogger(__name__)


class SubtaskFailures:
    """Counts the failures of a subtask's instances.

    A record that always fails is among others: its subtask commits records of other partitions before it fails again.
    So the count ends when every partition that it failed with is committed beyond its start of then.
    """

    def __init__(self) -> None:
        self._count = 0
        self._starts: dict[TopicPartition, int] = {}
        """Of what was read and not committed at the failures."""

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

    def progress(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Called where the subtask has committed what it read; a commit of starts alone is no progress.

        :param offsets: next offset of each partition, by commits that succeeded.
        """
        self._starts = {each: at for each, at in self._starts.items() if offsets.get(each, at) <= at}
        if not self._starts:
            self._count = 0

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Leaves out partitions that are gone."""
        for partition in partitions:
            self._starts.pop(partition, None)
