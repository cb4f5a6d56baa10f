"""What the driver knows of a subtask in the local pace: its instance and its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.continuous.local.subtask_failures import SubtaskFailures


@dataclass
class GrantedSubtask:
    """What the driver knows of a subtask's instance.

    :ivar instance: 0 while none was asked for.
    :ivar opened: its producer is open. :ivar granted: it may write.
    :ivar ending: it was told to commit and to end, because partitions are gone.
    :ivar placing: starts that it was told to commit. :ivar placed: that it has committed, and no document says so yet.
    :ivar reading: partitions that it was told to read.
    :ivar totals: of this instance. :ivar failures: of all instances of the subtask.
    """

    instance: int = 0
    opened: bool = False
    granted: bool = False
    ending: bool = False
    placing: dict[TopicPartition, int] = field(default_factory=dict)
    placed: dict[TopicPartition, int] = field(default_factory=dict)
    reading: set[TopicPartition] = field(default_factory=set)
    totals: Mapping[str, int] = field(default_factory=dict)
    failures: SubtaskFailures = field(default_factory=SubtaskFailures)
    heard: bool = False

    @property
    def assigned(self) -> set[TopicPartition]:
        """The partitions that its instance has been given."""
        return {*self.placing, *self.placed, *self.reading}

    @property
    def is_settled(self) -> bool:
        """Whether all its offsets are known by its reports."""
        return self.granted and not (self.ending or self.placing or self.placed)
