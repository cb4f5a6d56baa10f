"""What the offsets of a consumer group prove about a job, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sparkapp.checkpoint.recovery.local_starts import GroupAnswer
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.partition import TopicPartition


class FakeEvidence:
    """The group's final offsets. A partition without an offset is absent.

    :param error: why nothing can be read.
    :ivar asked: the partitions of each question.
    """

    def __init__(
        self, offsets: Mapping[TopicPartition, GroupOffset] | None = None, *, error: KafkaSparkJobError | None = None
    ) -> None:
        self.offsets = dict(offsets or {})
        self.error = error
        self.asked: list[list[TopicPartition]] = []

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        self.asked.append(list(partitions))
        if self.error is not None:
            raise self.error
        return {partition: self.offsets[partition] for partition in partitions if partition in self.offsets}


class NoMarks:
    """No offset of the group has the job's mark: it is new, or has expired."""

    def of(self, _: CheckpointDocument | None) -> Collection[str]:
        return ()

    def final(self, document: CheckpointDocument) -> GroupAnswer:
        return dict.fromkeys(document.offsets)
